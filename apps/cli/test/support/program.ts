import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll } from 'vitest'

export const BOXOFFICE = resolve(import.meta.dirname, '../../bin/boxoffice')
const PTY = resolve(import.meta.dirname, 'terminal.py')

export type Ended = { code: number | null; signal: string | null; stdout: string; stderr: string; bytes: Buffer }
export type Options = { env?: Record<string, string>; input?: string | Uint8Array; cwd?: string }

/** A program that runs, with what it has said so far. */
export class Running {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  #stdout: Buffer[] = []
  #stderr = ''
  #wake: (() => void)[] = []

  constructor(child: ChildProcess) {
    this.child = child
    child.stdout?.on('data', (bytes: Buffer) => {
      this.#stdout.push(bytes)
      for (const wake of this.#wake.splice(0)) wake()
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    // A program may leave without reading all of its input.
    child.stdin?.on('error', () => {})
    this.ended = once(child, 'close').then(([code, signal]) => {
      for (const wake of this.#wake.splice(0)) wake()
      return { code, signal, stdout: this.stdout, stderr: this.#stderr, bytes: Buffer.concat(this.#stdout) }
    })
  }

  get stdout(): string {
    return Buffer.concat(this.#stdout).toString()
  }

  /** Resolves when stdout holds `text`; rejects when the program ends before. */
  async says(text: string | RegExp): Promise<void> {
    const said = () => (typeof text === 'string' ? this.stdout.includes(text) : text.test(this.stdout))
    while (!said()) {
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        const { stdout, stderr } = await this.ended
        if (said()) return
        throw new Error(`ended before it said ${String(text)}:\n${stdout}\n${stderr}`)
      }
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
  }

  write(text: string): void {
    this.child.stdin?.write(text)
  }
}

export const start = (args: string[], { env = {}, cwd }: Options = {}): Running =>
  new Running(spawn(BOXOFFICE, args, { stdio: 'pipe', cwd, env: { ...process.env, ...env } }))

/** In a terminal of its own, 100 columns by 30 rows; its input is what is typed, its output what the screen gets. */
export const startInTerminal = (args: string[], { env = {} }: Options = {}): Running =>
  new Running(spawn('python3', [PTY, BOXOFFICE, ...args], { stdio: 'pipe', env: { ...process.env, TERM: 'xterm', ...env } }))

export const run = async (args: string[], options: Options = {}): Promise<Ended> => {
  const running = start(args, options)
  running.child.stdin?.end(options.input ?? '')
  return await running.ended
}

/** `boxoffice up` on free ports with the local provider, and the environment in which commands find it. */
export const startUp = async (args: string[] = []) => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-cli-'))
  const dataDir = join(directory, 'data')
  const up = start([
    'up',
    '--json',
    '--port',
    '0',
    '--agent-port',
    '0',
    '--provider',
    'local',
    '--data-dir',
    dataDir,
    '--destroy-on-exit',
    ...args,
  ])
  const lines = createInterface({ input: up.child.stdout as NodeJS.ReadableStream })
  const first = await Promise.race([once(lines, 'line'), up.ended])
  if (!Array.isArray(first)) throw new Error(`boxoffice up ended: ${first.stderr}`)
  const ready = JSON.parse(String(first[0])) as Record<string, unknown>
  const env = { BOXOFFICE_URL: String(ready.broker_url), BOXOFFICE_DATA_DIR: dataDir }
  return {
    ready,
    env,
    directory,
    up,
    async stop(): Promise<Ended> {
      up.child.kill('SIGTERM')
      const ended = await up.ended
      await rm(directory, { recursive: true, force: true })
      return ended
    },
  }
}
export type Up = Awaited<ReturnType<typeof startUp>>

/** For the top of a file: `boxoffice up` for all of its tests, and commands that find it. */
export const upForAll = () => {
  let running: Up
  beforeAll(async () => {
    running = await startUp()
  })
  afterAll(async () => {
    await running.stop()
  })
  return {
    get up(): Up {
      return running
    },
    boxoffice: (args: string[], input?: string | Uint8Array) => run(args, { env: running.env, ...(input === undefined ? {} : { input }) }),
  }
}
