import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { VERSION } from '../../packages/kit/src/version.ts'
import { installedVersion, type Manifest, readManifest } from './dependencies.ts'
import { writeStripped } from './strip.ts'

export const ROOT = resolve(import.meta.dirname, '../..')
/** What the command line consists of; each keeps its place, by which they find each other. */
const OWN = [
  'apps/cli',
  'apps/agent',
  'apps/broker',
  'packages/client',
  'packages/kit',
  'packages/mcp',
  'packages/node-http',
  'packages/protocol',
]
/** Of the supervisor's packages, as Node names both halves. */
export const PLATFORMS = ['linux-x64', 'linux-arm64'] as const

const shared = (): Pick<Manifest, 'version' | 'license'> => ({ version: VERSION, license: readManifest(ROOT).license })

/** What a package that starts supervisors depends on, where its platform has one. */
export const supervisorsOf = (): Record<string, string> =>
  Object.fromEntries(PLATFORMS.map((platform) => [supervisorPackage(platform), VERSION]))

export const supervisorPackage = (platform: string): string => `@boxoffice/supervisor-${platform}`

export const writeManifest = (directory: string, manifest: object): void =>
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)

/** The parts of the command line, for who copies what they need. */
export const ownParts = (): { path: string; directory: string; manifest: Manifest }[] =>
  OWN.map((path) => ({ path, directory: join(ROOT, path), manifest: readManifest(join(ROOT, path)) }))

/**
 * Writes the package `boxoffice` into `directory`: the parts as JavaScript, with the versions that the lockfile has chosen as its
 * dependencies and a supervisor for each platform as optional ones. Gives its manifest.
 */
export function stageProgram(directory: string): Manifest {
  const parts = ownParts()
  const entries = new Map<string, string>()
  for (const { path, manifest } of parts)
    for (const [name, file] of Object.entries(typeof manifest.exports === 'string' ? { '.': manifest.exports } : (manifest.exports ?? {})))
      entries.set(join(manifest.name, name), join(path, file))
  for (const { path } of parts)
    for (const file of readdirSync(join(ROOT, path, 'src'), { recursive: true, encoding: 'utf8' })) {
      const source = join(ROOT, path, 'src', file)
      if (statSync(source).isFile()) writeStripped(source, join(directory, path, 'src', file), directory, entries)
    }
  cpSync(join(ROOT, 'apps/cli/bin'), join(directory, 'apps/cli/bin'), { recursive: true })
  cpSync(join(ROOT, 'skills'), join(directory, 'skills'), { recursive: true })
  for (const file of ['README.md', 'LICENSE']) cpSync(join(ROOT, file), join(directory, file))
  const commands = readManifest(join(ROOT, 'apps/cli')).bin as Record<string, string>
  const bin = Object.fromEntries(Object.entries(commands).map(([name, path]) => [name, join('apps/cli', path)]))
  for (const path of Object.values(bin)) chmodSync(join(directory, path), 0o755)
  const manifest = {
    name: 'boxoffice',
    ...shared(),
    description: readManifest(ROOT).description,
    engines: { node: '>=24' },
    type: 'module',
    bin,
    dependencies: dependenciesOf(parts),
    optionalDependencies: supervisorsOf(),
  }
  writeManifest(directory, manifest)
  return manifest
}

/** Exactly what the tests have run with. */
const dependenciesOf = (parts: ReturnType<typeof ownParts>): Record<string, string> => {
  const versions: Record<string, string> = {}
  for (const { directory, manifest } of parts)
    for (const name of Object.keys(manifest.dependencies ?? {})) {
      if (name.startsWith('@boxoffice/')) continue
      const version = installedVersion(name, directory)
      versions[name] ??= version
      if (versions[name] !== version) throw new Error(`two parts need ${name}, as ${versions[name]} and as ${version}`)
    }
  return Object.fromEntries(Object.entries(versions).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Writes the package of one platform's supervisor into `directory`. `binary`: made by supervisors.sh. */
export function stageSupervisor(directory: string, platform: (typeof PLATFORMS)[number], binary: string): void {
  if (!existsSync(binary)) throw new Error(`${binary} is not there; run deploy/package/supervisors.sh`)
  const [os = '', cpu = ''] = platform.split('-')
  const target = join(directory, 'bin/supervisor')
  mkdirSync(dirname(target), { recursive: true })
  cpSync(binary, target)
  chmodSync(target, 0o755)
  const notices = join(dirname(binary), 'NOTICES')
  if (existsSync(notices)) cpSync(notices, join(directory, 'NOTICES'))
  cpSync(join(ROOT, 'LICENSE'), join(directory, 'LICENSE'))
  writeFileSync(
    join(directory, 'README.md'),
    `# ${supervisorPackage(platform)}\n\nThe supervisor of Boxoffice's sandboxes for ${platform}: one static binary. \`boxoffice\` depends on it.\n`,
  )
  writeManifest(directory, {
    name: supervisorPackage(platform),
    ...shared(),
    description: `The supervisor of Boxoffice's sandboxes, for ${platform}`,
    os: [os],
    cpu: [cpu],
  })
}
