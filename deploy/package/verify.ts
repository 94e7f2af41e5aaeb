import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pack } from './pack.ts'
import { published } from './verify-published.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const COMMANDS = ['sbs', 'session-based-sandbox']

const check = (holds: boolean, what: string): void => {
  if (!holds) throw new Error(what)
}

/** Starts the server by its command, runs one step of each kind, closes the session, stops the server: it must leave nothing. */
const smoke = async (command: string): Promise<void> => {
  const temporary = mkdtempSync(join(tmpdir(), 'verify-'))
  const server = spawn(command, ['run', '--port', '0'], {
    cwd: temporary,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const url = await urlOf(server, command)
    const post = async (path: string, body: object) => {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
      return (await answer.json()) as Record<string, unknown>
    }
    const { session_id: id } = await post('/sessions', {})
    const step = (type: string, payload: object) => post(`/sessions/${id}/step`, { sandbox_id: id, type, payload })
    check((await step('bash', { cmd: 'echo kept >file; echo $((6 * 7))' })).output === '42\n', `${command}: a bash step does not answer`)
    check((await step('python', { code: 'print(open("file").read())' })).output === 'kept\n\n', `${command}: a Python step does not answer`)
    const closed = await fetch(`${url}/sessions/${id}`, { method: 'DELETE' })
    check(closed.status === 204, `${command}: DELETE answers ${closed.status}`)
    const ended = once(server, 'exit')
    server.kill('SIGTERM')
    const [code] = await ended
    check(code === 0, `${command}: ended with ${code}`)
    check(readdirSync(temporary).length === 0, `${command}: left ${readdirSync(temporary).join(', ')} in its temporary directory`)
  } finally {
    if (server.exitCode === null) server.kill('SIGKILL')
    rmSync(temporary, { recursive: true, force: true })
  }
}

const urlOf = async (server: ChildProcess, command: string): Promise<string> => {
  if (server.stdout === null) throw new Error('no stdout')
  for await (const line of createInterface({ input: server.stdout })) {
    const url = /ready: (\S+)/.exec(line)?.[1]
    if (url !== undefined) return url
  }
  throw new Error(`${command}: did not start`)
}

const help = (command: string, args: string[]): void => {
  const text = execFileSync(command, [...args, '--help'], { encoding: 'utf8' })
  check(text.includes('run') && text.includes('SBS_STEP_TIMEOUT_SEC'), `${command} ${args.join(' ')} --help does not help`)
}

/** As `pnpm install` links it in a checkout: what is edited is what runs. */
const editable = (): Promise<void> => smoke(join(ROOT, 'node_modules/.bin/sbs'))

/** Both names, their help, and the same server behind them. */
const cli = async (directory = join(ROOT, 'node_modules/.bin')): Promise<void> => {
  for (const name of COMMANDS) {
    const command = join(directory, name)
    help(command, [])
    help(command, ['run'])
    await smoke(command)
  }
}

/** Packed, installed in an empty directory without any registry, and run there. */
const packed = async (): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), 'verify-package-'))
  try {
    const tarball = pack(directory)
    execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', directory, tarball], {
      cwd: directory,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, npm_config_cache: join(directory, 'npm-cache') },
    })
    await cli(join(directory, 'node_modules/.bin'))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const PARTS: Record<string, () => Promise<void>> = { editable, cli: () => cli(), package: packed, published }

for (const name of process.argv.slice(2)) {
  const part = PARTS[name]
  if (part === undefined) throw new Error(`verify: there is no ${name}; there are: ${Object.keys(PARTS).join(', ')}`)
  await part()
  process.stdout.write(`verify: ${name} ok\n`)
}
