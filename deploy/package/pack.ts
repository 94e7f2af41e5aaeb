import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { copyDependencies, readManifest } from './dependencies.ts'
import { writeStripped } from './strip.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** What the command line consists of; each keeps its place, by which they find each other and the supervisor. */
const OWN = ['apps/cli', 'apps/agent', 'apps/broker', 'packages/client', 'packages/kit', 'packages/node-http', 'packages/protocol']
const SUPERVISOR = 'packages/supervisor/bin/supervisor'

/**
 * Makes the tarball that `npm install` takes: the command line with everything that it needs for this platform, so that nothing
 * is fetched or built where it is installed. Gives its path.
 */
export function pack(directory: string): string {
  if (!existsSync(join(ROOT, SUPERVISOR))) throw new Error(`${SUPERVISOR} is not there; run the set-up`)
  const parts = OWN.map((path) => ({ path, directory: join(ROOT, path), manifest: readManifest(join(ROOT, path)) }))
  const staging = mkdtempSync(join(tmpdir(), 'boxoffice-pack-'))
  try {
    const root = join(staging, 'package')
    const entries = new Map<string, string>()
    for (const { path, manifest } of parts)
      for (const [name, file] of Object.entries(
        typeof manifest.exports === 'string' ? { '.': manifest.exports } : (manifest.exports ?? {}),
      ))
        entries.set(join(manifest.name, name), join(path, file))
    for (const { path } of parts)
      for (const file of readdirSync(join(ROOT, path, 'src'), { recursive: true, encoding: 'utf8' })) {
        const source = join(ROOT, path, 'src', file)
        if (statSync(source).isFile()) writeStripped(source, join(root, path, 'src', file), root, entries)
      }
    cpSync(join(ROOT, 'apps/cli/bin'), join(root, 'apps/cli/bin'), { recursive: true })
    cpSync(join(ROOT, 'skills'), join(root, 'skills'), { recursive: true })
    for (const file of ['README.md', 'LICENSE']) cpSync(join(ROOT, file), join(root, file))
    cpSync(join(ROOT, SUPERVISOR), join(root, SUPERVISOR))
    const dependencies = copyDependencies(parts, join(root, 'node_modules'))
    const { version, description, license } = readManifest(ROOT)
    const bin = Object.fromEntries(
      Object.entries(readManifest(join(ROOT, 'apps/cli')).bin as Record<string, string>).map(([name, path]) => [
        name,
        join('apps/cli', path),
      ]),
    )
    for (const path of [...Object.values(bin), SUPERVISOR]) chmodSync(join(root, path), 0o755)
    const manifest = {
      name: 'boxoffice',
      version,
      description,
      license,
      engines: { node: '>=24' },
      type: 'module',
      os: [process.platform],
      cpu: [process.arch],
      bin,
    }
    const bundled = { dependencies, bundleDependencies: Object.keys(dependencies) }
    writeFileSync(join(root, 'package.json'), JSON.stringify({ ...manifest, ...bundled }, null, 2))
    mkdirSync(directory, { recursive: true })
    const tarball = join(directory, `boxoffice-${version}-${process.platform}-${process.arch}.tgz`)
    execFileSync('tar', ['-czf', tarball, '-C', staging, 'package'])
    return tarball
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const tarball = pack(resolve(process.argv[2] ?? '.'))
  process.stdout.write(`${relative(process.cwd(), tarball)} ${Math.round(statSync(tarball).size / 1024 ** 2)} MiB\n`)
}
