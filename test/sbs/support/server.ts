import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dirname, '../../..')
/** What `pnpm install` links. */
export const bin = (name: string): string => join(ROOT, 'node_modules/.bin', name)

export type LogLine = { event?: string; session_id?: string; msg: string; [name: string]: unknown }
export type Ended = { code: number | null; stdout: string; stderr: string }

/** `sbs run` as a person starts it, with a temporary directory of its own, in which whatever it leaves is seen. */
export type SbsServer = {
  url: string
  child: ChildProcess
  temporary: string
  stdout: () => string
  /** What it has logged so far. */
  log: () => LogLine[]
  /** Resolves when it has logged a line that is asked for. */
  logged: (matches: (line: LogLine) => boolean) => Promise<LogLine>
  /** What is in its temporary directory. */
  leftovers: () => Promise<string[]>
  stop: (signal?: NodeJS.Signals) => Promise<Ended>
  [Symbol.asyncDispose](): Promise<void>
}

export type StartOptions = {
  command?: string
  /** Before the command: to run it as somebody else. */
  before?: string[]
  args?: string[]
  env?: Record<string, string | undefined>
  cwd?: string
  temporary?: string
}

export const startSbs = async (options: StartOptions = {}): Promise<SbsServer> => {
  const { command = bin('sbs'), before = [], args = ['run', '--port', '0'], env = {}, cwd } = options
  const temporary = options.temporary ?? (await mkdtemp(join(tmpdir(), 'sbs-test-')))
  const [file = command, ...rest] = [...before, command, ...args]
  const child = spawn(file, rest, { stdio: ['ignore', 'pipe', 'pipe'], cwd, env: { ...process.env, TMPDIR: temporary, ...env } })
  let stdout = ''
  let stderr = ''
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    wake()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    wake()
  })
  const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, stdout, stderr }))
  const until = <T>(found: () => T | undefined): Promise<T> =>
    new Promise((resolve, reject) => {
      const look = () => {
        const value = found()
        if (value === undefined) return
        waiting.delete(look)
        resolve(value)
      }
      waiting.add(look)
      look()
      void ended.then(({ code }) => reject(new Error(`sbs ended with ${code}:\n${stdout}\n${stderr}`)))
    })
  const log = (): LogLine[] =>
    stderr
      .split('\n')
      .slice(0, -1)
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as LogLine)
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> => {
    child.kill(signal)
    return ended
  }
  const url = await until(() => /ready: (\S+)\n[\s\S]*removes everything/.exec(stdout)?.[1]).catch(async (thrown: unknown) => {
    await rm(temporary, { recursive: true, force: true })
    throw thrown
  })
  return {
    url,
    child,
    temporary,
    log,
    stop,
    stdout: () => stdout,
    logged: (matches) => until(() => log().find(matches)),
    leftovers: () => readdir(temporary),
    async [Symbol.asyncDispose]() {
      await stop()
      await rm(temporary, { recursive: true, force: true })
    },
  }
}
