import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'

const PYTHON = join(import.meta.dirname, '../../../../../.tools/python')
const LIBRARIES = [
  ...['anyio', 'certifi', 'charset_normalizer', 'h11', 'httpcore', 'httpx', 'idna', 'requests', 'sniffio', 'typing_extensions.py'],
  ...['urllib3', 'websockets'],
]

const output = (command: string, ...args: string[]): string => execFileSync(command, args, { encoding: 'utf8' }).trim()

/** Where this machine keeps libraries of Python that tests run with. */
export const pythonLibraries = (): string => output(join(PYTHON, 'bin/python'), '-c', 'import site; print(site.getsitepackages()[0])')

/** The npm on the path: a script beside what it needs. Another Node than its own would say another place. */
export const npmProgram = (): string => realpathSync(output('sh', '-c', 'command -v npm'))

export const UV = join(PYTHON, 'bin/uv')

/** In a toolbox, and what of this machine is there. Programs that are not on the path of a sandbox. */
const parts = (): (readonly [place: string, from: string])[] => {
  const [rust, npm, libraries] = [output('rustc', '--print', 'sysroot'), dirname(dirname(npmProgram())), pythonLibraries()]
  return [
    ['bin/node', process.execPath],
    ['bin/uv', UV],
    ['lib/node_modules/npm', npm],
    ['go', output('go', 'env', 'GOROOT')],
    ['rust/bin', join(rust, 'bin')],
    ...output('find', join(rust, 'lib'), '-maxdepth', '1', '-name', '*.so*')
      .split('\n')
      .map((from) => [`rust/lib/${from.slice(from.lastIndexOf('/') + 1)}`, from] as const),
    ...LIBRARIES.map((name) => [`python/${name}`, join(libraries, name)] as const),
  ]
}

/** A directory with tools of this machine, for sandboxes to have at `at`: `path` finds them there, `libraries` are Python's. */
export const makeToolbox = (directory: string, at: string): { path: string; libraries: string } => {
  for (const [place, from] of parts()) {
    const to = join(directory, place)
    mkdirSync(dirname(to), { recursive: true })
    try {
      // Links where the file system is the same: gigabytes are there at once.
      execFileSync('cp', ['-al', from, to], { stdio: 'pipe' })
    } catch {
      execFileSync('cp', ['-a', from, to])
    }
  }
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(directory, 'bin/npm'))
  chmodSync(directory, 0o755)
  return { path: ['bin', 'go/bin', 'rust/bin'].map((name) => join(at, name)).join(':'), libraries: join(at, 'python') }
}
