import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { VERSION } from '../../packages/kit/src/version.ts'
import { BareMachine } from './bare-machine.ts'
import { bundleForBrowser } from './browser-bundle.ts'
import { findingsOf } from './contents.ts'
import { packRelease } from './release.ts'
import { PLATFORMS, ROOT, supervisorPackage } from './stage.ts'

/** From the command to the line that says ready, on a machine that does nothing else. */
const READY_WITHIN_MS = 15_000
/** The oldest major version of Node that the client runs on. */
const OLDEST_NODE = '20'

/** A wrong type has to be found, or nothing has types. */
const PROGRAM = `import { connect } from '@boxoffice/client'
import { mountExec } from '@boxoffice/mcp'

declare const process: { env: Record<string, string>; stdout: { write(text: string): void } }
const client = connect(process.env.BOXOFFICE_URL!, { apiKey: process.env.BOXOFFICE_API_KEY! })
await using session = await client.session('from-a-program')
const { stdout } = await session.exec('echo from a program')
// @ts-expect-error
const wrong: number = stdout
process.stdout.write(typeof mountExec === 'function' ? stdout : 'no mountExec')
`

/** What older runtimes get by the package's condition: a socket, in a Node that has none, and types without those of the product's own Node. */
const PLAIN = `import { connect, isFamily } from '@boxoffice/client'

declare const process: { env: Record<string, string> }
const client = connect(process.env.BOXOFFICE_URL!, { apiKey: process.env.BOXOFFICE_API_KEY! })
const session = await client.session('from-a-plain-program')
const run = await session.exec.start('cat')
await run.stdin.write('over a socket')
await run.stdin.end()
const text = await run.text()
const pieces: string[] = []
const { stdout } = await session.exec('echo by callback', { onStdout: (piece) => void pieces.push(piece) })
await session.files.upload('file', text)
console.log(await session.files.text('file'), isFamily(undefined, 'input'), 'WebSocket' in globalThis, pieces.join('') === stdout)
await session[Symbol.asyncDispose]()
`

const PLAIN_OUTPUT = 'over a socket false false true\n'

type Ready = { broker_url: string; api_key: string; isolation: string; pid: number }

const say = (text: string): void => void process.stdout.write(`verify: published: ${text}\n`)
const seconds = (sinceMs: number): string => `${((Date.now() - sinceMs) / 1000).toFixed(1)} s`

/**
 * Builds the supervisor of each platform, packs what is published, reads every file of it, installs it where there is only Node, starts
 * it, runs one command in a sandbox and stops it.
 */
export async function published(): Promise<void> {
  let began = Date.now()
  execFileSync('sh', [join(ROOT, 'deploy/package/supervisors.sh')], { stdio: ['ignore', 'ignore', 'inherit'] })
  say(`built the supervisors in ${seconds(began)}`)
  const directory = mkdtempSync(join(tmpdir(), 'verify-published-'))
  // Where root starts it, each sandbox has a uid of its own, which has to reach its files.
  chmodSync(directory, 0o755)
  try {
    const tarballs = packRelease(join(directory, 'tarballs'))
    for (const { name, path, files, bytes } of tarballs) {
      const findings = findingsOf(path)
      if (findings.length > 0) throw new Error(`${name}: ${findings.join('; ')}`)
      say(`packed ${name}: ${files.length} files, ${(bytes / 1024 ** 2).toFixed(1)} MiB, and nothing in it that should not be`)
    }
    const machine = new BareMachine(directory)
    const notOurs = PLATFORMS.map(supervisorPackage).filter((name) => name !== supervisorPackage(`${process.platform}-${process.arch}`))
    began = Date.now()
    const chosen = tarballs.filter(({ name }) => !notOurs.includes(name)).map(({ path }) => path)
    machine.run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', ...chosen])
    say(`installed on a bare machine in ${seconds(began)}`)
    const version = machine.run('npx', ['boxoffice', '--version']).trim()
    if (version !== VERSION) throw new Error(`boxoffice --version says ${version}, and not ${VERSION}`)
    await useIt(machine)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const useIt = async (machine: BareMachine): Promise<void> => {
  const began = Date.now()
  const up = machine.start('npx', [
    'boxoffice',
    'up',
    '--provider',
    'local',
    '--port',
    '0',
    '--agent-port',
    '0',
    '--destroy-on-exit',
    '--log-level',
    'warn',
    '--json',
  ])
  const ended = once(up, 'close')
  let pid: number | undefined
  try {
    const ready = await readyOf(up)
    pid = ready.pid
    const tookMs = Date.now() - began
    if (!(await fetch(`${ready.broker_url}/readyz`)).ok) throw new Error('the broker says ready, and /readyz does not')
    say(`\`npx boxoffice up\` was ready after ${(tookMs / 1000).toFixed(1)} s (isolation ${ready.isolation})`)
    if (tookMs > READY_WITHIN_MS) throw new Error(`that is more than ${READY_WITHIN_MS / 1000} s`)
    const env = { BOXOFFICE_URL: ready.broker_url, BOXOFFICE_API_KEY: ready.api_key }
    const output = machine.run('npx', ['boxoffice', 'exec', '--', 'sh', '-c', 'echo $((6 * 7))'], env)
    if (output !== '42\n') throw new Error(`the command in a sandbox says ${JSON.stringify(output)}`)
    say('a command ran in a sandbox')
    useLibraries(machine, env)
    usePlainly(machine, env)
    useOldNode(machine, env)
    await useBundler(machine)
    process.kill(ready.pid, 'SIGTERM')
    const [code] = await ended
    if (code !== 0) throw new Error(`up ended with ${code}`)
    pid = undefined
    say('it stopped')
  } finally {
    if (pid !== undefined) await stop(pid, up, ended)
    else if (up.exitCode === null && up.signalCode === null) up.kill('SIGKILL')
  }
}

/** After a failure: it takes away its sandboxes and mounts, where it still can. */
const stop = async (pid: number, up: ChildProcess, ended: Promise<unknown>): Promise<void> => {
  const patience = setTimeout(() => void spawn('kill', ['-KILL', `${pid}`, `${up.pid}`]), 30_000)
  if (up.exitCode === null) process.kill(pid, 'SIGTERM')
  await ended
  clearTimeout(patience)
}

const useLibraries = (machine: BareMachine, env: Record<string, string>): void => {
  writeFileSync(join(machine.project, 'program.mts'), PROGRAM)
  const output = machine.run('node', ['--disable-warning=ExperimentalWarning', 'program.mts'], env)
  if (output !== 'from a program\n') throw new Error(`the program says ${JSON.stringify(output)}`)
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'es2024,esnext.disposable,dom',
  ]
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), [...options, '--types', '', 'program.mts'], {
    cwd: machine.project,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  say('a program used the client, and its types')
}

const usePlainly = (machine: BareMachine, env: Record<string, string>): void => {
  writeFileSync(join(machine.project, 'plain.mts'), PLAIN)
  const flags = ['--disable-warning=ExperimentalWarning', '--no-experimental-websocket']
  const output = machine.run('node', [...flags, 'plain.mts'], env)
  if (output !== PLAIN_OUTPUT) throw new Error(`the program without a WebSocket says ${JSON.stringify(output)}`)
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', '']
  for (const lib of ['es2022,dom', 'es2022,dom,dom.iterable,dom.asynciterable'])
    execFileSync(join(ROOT, 'node_modules/.bin/tsc'), [...options, '--lib', lib, 'plain.mts'], {
      cwd: machine.project,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
  say('a program used the client without a WebSocket of its own, and every declaration of it with es2022')
}

/** The same as plain JavaScript, in the oldest Node, which has no WebSocket. */
const useOldNode = (machine: BareMachine, env: Record<string, string>): void => {
  const began = Date.now()
  const place = join(machine.project, 'old-node')
  mkdirSync(place)
  writeFileSync(join(place, 'package.json'), '{ "private": true }')
  // `node` unpacks in a script.
  const options = ['--ignore-scripts=false', '--no-audit', '--no-fund', '--loglevel=error']
  machine.run('npm', ['install', ...options, '--prefix', place, `node@${OLDEST_NODE}`])
  const node = join(place, 'node_modules/node/bin/node')
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  if (!version.startsWith(`v${OLDEST_NODE}.`)) throw new Error(`node@${OLDEST_NODE} is ${version}`)
  writeFileSync(join(machine.project, 'plain.mjs'), stripTypeScriptTypes(PLAIN))
  symlinkSync(node, join(machine.bin, 'old-node'))
  const output = machine.run('old-node', ['plain.mjs'], env)
  if (output !== PLAIN_OUTPUT) throw new Error(`the program in Node ${version} says ${JSON.stringify(output)}`)
  say(`a program in plain JavaScript used the client in Node ${version}, with ws; ${seconds(began)} with its installation`)
}

/** The same for a browser; the condition `node` is not its. */
const useBundler = async (machine: BareMachine): Promise<void> => {
  const { moduleIds } = await bundleForBrowser(join(machine.project, 'plain.mjs'))
  if (!moduleIds.some((id) => id.endsWith('/@boxoffice/client/dist/index.js'))) throw new Error('the bundle for browsers has no client')
  say('a bundler made a program for browsers of the client')
}

const readyOf = async (up: ChildProcess): Promise<Ready> => {
  if (up.stdout === null) throw new Error('no stdout')
  for await (const line of createInterface({ input: up.stdout })) return JSON.parse(line) as Ready
  throw new Error('up ended before it was ready')
}
