import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { copyDependencies } from './dependencies.ts'
import { ownParts, ROOT, stageProgram, writeManifest } from './stage.ts'

const SUPERVISOR = 'packages/supervisor/bin/supervisor'
/** The same sources give the same file, whoever packs them and when: the time is the one that `npm pack` writes. */
const REPRODUCIBLE = ['--sort=name', '--mtime=1985-10-26T08:15:00Z', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']

/**
 * Makes the tarball that `npm install` takes without a registry: the command line with everything that it needs for this platform, so that
 * nothing is fetched or built where it is installed. Gives its path.
 */
export function pack(directory: string): string {
  if (!existsSync(join(ROOT, SUPERVISOR))) throw new Error(`${SUPERVISOR} is not there; run the set-up`)
  const staging = mkdtempSync(join(tmpdir(), 'boxoffice-pack-'))
  try {
    const root = join(staging, 'package')
    const { optionalDependencies: _supervisors, ...manifest } = stageProgram(root)
    cpSync(join(ROOT, SUPERVISOR), join(root, SUPERVISOR))
    chmodSync(join(root, SUPERVISOR), 0o755)
    const dependencies = copyDependencies(ownParts(), join(root, 'node_modules'))
    const bundled = { dependencies, bundleDependencies: Object.keys(dependencies) }
    writeManifest(root, { ...manifest, os: [process.platform], cpu: [process.arch], ...bundled })
    mkdirSync(directory, { recursive: true })
    const tarball = join(directory, `boxoffice-${manifest.version}-${process.platform}-${process.arch}.tgz`)
    execFileSync('tar', [...REPRODUCIBLE, '-czf', tarball, '-C', staging, 'package'])
    return tarball
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const tarball = pack(resolve(process.argv[2] ?? '.'))
  process.stdout.write(`${relative(process.cwd(), tarball)} ${Math.round(statSync(tarball).size / 1024 ** 2)} MiB\n`)
}
