import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './stage.ts'

const NEEDED = ['package.json', 'README.md', 'LICENSE']
/** Nobody needs these to run it, and some were never meant for others. Declarations are for programs in TypeScript. */
const UNWANTED = /(^|\/)(tests?|bench|target|node_modules|\.[^/]+)(\/|$)|(?<!\.d)\.ts$|\.(map|tgz|pem|key|sqlite|log)$|\.(test|spec)\./
const SECRETS =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----|\bbxo_[A-Za-z0-9_-]{20,}|\bnpm_[A-Za-z0-9]{36}\b|_authToken|\bgh[opsu]_[A-Za-z0-9]{36}\b/

/** What is wrong with the files of a tarball, a line for each finding: one that is missing, has no place there, or tells of the machine that made it. */
export function findingsOf(tarball: string): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'boxoffice-contents-'))
  try {
    execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components=1'])
    const files = execFileSync('find', ['.', '-type', 'f', '-printf', '%P\\0'], { cwd: directory, encoding: 'utf8' })
      .split('\0')
      .slice(0, -1)
    const missing = NEEDED.filter((file) => !files.includes(file)).map((file) => `${file} is missing`)
    return [...missing, ...files.flatMap((file) => findingsIn(file, readFileSync(join(directory, file), 'latin1')))]
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const findingsIn = (file: string, text: string): string[] => [
  ...(UNWANTED.test(file) ? [`${file} has no place there`] : []),
  ...(SECRETS.test(text) ? [`${file} holds what looks like a secret`] : []),
  ...[`${ROOT}/`, `${homedir()}/.`, `${tmpdir()}/boxoffice-`]
    .filter((path) => text.includes(path))
    .map((path) => `${file} names ${path}, which is of this machine`),
]
