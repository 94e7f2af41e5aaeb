import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
export const BOXOFFICE = `${ROOT}node_modules/.bin/boxoffice`

export type ReadyLine = {
  event: 'ready'
  broker_url: string
  agent_url: string
  api_key: string
  provider: string | null
  isolation: string | null
  pid: number
}

/** One running `boxoffice up | broker | agent`, started as a user starts it. */
export type Program = {
  ready: ReadyLine
  child: ChildProcess
  stderr: () => string
  /** SIGTERM, then waits for the end; resolves with the exit code. */
  stop(): Promise<number | null>
  kill(signal: NodeJS.Signals): Promise<void>
}

/**
 * Starts the CLI with `--json` and resolves with its ready line; rejects with its stderr when it ends before that. `enter` is what
 * stands before it, to start it somewhere else; it must end by becoming the program.
 */
export const startProgram = async (args: string[], env: Record<string, string> = {}, enter: readonly string[] = []): Promise<Program> => {
  const [program = BOXOFFICE, ...before] = [...enter, BOXOFFICE]
  const child = spawn(program, [...before, ...args, '--json'], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-1_000_000)
  })
  const exited = once(child, 'exit')
  const line = once(createInterface({ input: child.stdout }), 'line')
  const first = await Promise.race([line, exited.then(() => undefined)])
  if (first === undefined) throw new Error(`boxoffice ${args.join(' ')} ended before it was ready:\n${stderr}`)
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      await exited
    }
    return child.exitCode
  }
  return {
    ready: JSON.parse(String(first[0])) as ReadyLine,
    child,
    stderr: () => stderr,
    stop: () => end('SIGTERM'),
    kill: async (signal) => {
      await end(signal)
    },
  }
}

/** One `boxoffice …` that runs to its end. */
export const runProgram = async (
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> => {
  const child = spawn(BOXOFFICE, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  await once(child, 'close')
  return { code: child.exitCode, stdout, stderr }
}
