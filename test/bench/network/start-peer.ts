import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Starts a program of this directory; `enter` stands before it, to start it somewhere else. Resolves with its first line. */
export const startPeer = async (
  name: 'origin.ts' | 'pipe.ts',
  args: readonly string[],
  enter: readonly string[] = [],
): Promise<{ line: string; stop(): Promise<void> }> => {
  const [program = '', ...rest] = [...enter, process.execPath, fileURLToPath(new URL(name, import.meta.url)), ...args]
  const child: ChildProcess = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const first = once(createInterface({ input: child.stdout ?? process.stdin }), 'line')
  const line = await Promise.race([first, ended.then(() => undefined)])
  if (line === undefined) throw new Error(`${name} ended before it was ready`)
  return {
    line: String(line[0]),
    stop: async () => {
      child.kill()
      await ended
    },
  }
}
