import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { PLATFORMS, ROOT, stageProgram, stageSupervisor } from './stage.ts'
import { stageLibraries } from './stage-libraries.ts'

export type Tarball = { name: string; path: string; files: readonly string[]; bytes: number }

type Packed = { name: string; filename: string; files: { path: string }[]; size: number }

/** Where supervisors.sh has put what it built. */
export const builtSupervisor = (platform: (typeof PLATFORMS)[number]): string =>
  join(ROOT, 'packages/supervisor/prebuilt', platform, 'supervisor')

/** Makes what is published in `directory`, with `npm pack`: the supervisor of each platform, `boxoffice`, and the packages that programs import. */
export function packRelease(directory: string, binaryOf = builtSupervisor): Tarball[] {
  const staging = mkdtempSync(join(tmpdir(), 'boxoffice-release-'))
  try {
    const program = join(staging, 'boxoffice')
    stageProgram(program)
    const supervisors = PLATFORMS.map((platform) => {
      const supervisor = join(staging, platform)
      stageSupervisor(supervisor, platform, binaryOf(platform))
      return supervisor
    })
    mkdirSync(directory, { recursive: true })
    const libraries = stageLibraries(join(staging, 'libraries'))
    return [...supervisors, program, ...libraries].map((source) => npmPack(source, directory))
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

const npmPack = (source: string, directory: string): Tarball => {
  const args = ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', directory]
  const told: unknown = JSON.parse(execFileSync('npm', args, { cwd: source, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }))
  // A list up to npm 11, later an object by name.
  const [packed] = Object.values(told as Record<string, Packed>)
  if (packed === undefined) throw new Error(`npm pack made nothing of ${source}`)
  const { name, filename, files, size } = packed
  return { name, path: join(directory, filename), files: files.map(({ path }) => path), bytes: size }
}

if (import.meta.main)
  for (const { path } of packRelease(resolve(process.argv[2] ?? '.')))
    process.stdout.write(`${relative(process.cwd(), path)} ${(statSync(path).size / 1024 ** 2).toFixed(1)} MiB\n`)
