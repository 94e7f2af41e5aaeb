import { randomUUID } from 'node:crypto'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import type { SupervisorLink } from '../../../src/supervisor/link.ts'
import { FRAME } from '../../../src/supervisor/wire.ts'

export type Ran = { stdout: string; stderr: string; code: number | null; signal: string | null; reason: string; oom: boolean }

export type Process = { id: string; ended: Promise<Ran>; outputMatches: (pattern: RegExp) => Promise<void> }

/** Starts a command over the link itself, without anything of the dataplane between. */
export const start = async (link: SupervisorLink, command: string, fields: Record<string, unknown> = {}): Promise<Process> => {
  const id = randomUUID()
  const output = { 1: '', 2: '' }
  const watchers = new Set<() => void>()
  const ended = Promise.withResolvers<Ran>()
  const channel = await link.open({
    data(stream, piece) {
      output[stream] += piece.toString()
      for (const watch of watchers) watch()
    },
    frame(type, payload) {
      if (type === FRAME.exit) {
        const { code, signal, reason, oom } = payload as Pick<Ran, 'code' | 'signal' | 'reason' | 'oom'>
        ended.resolve({ stdout: output[1], stderr: output[2], code, signal, reason, oom })
      } else if (type === FRAME.error) ended.reject(new Error(`supervisor: ${JSON.stringify(payload)}`))
    },
    closed: () => ended.reject(new Error('the link broke before the process ended')),
  })
  ended.promise.catch(() => {})
  const defaults = { env: {}, stdin: 'closed', grace_ms: 1000, detach: false, stdout: 0, stderr: 0, quiet: true }
  channel.send(FRAME.start, { id, fingerprint: id, meta: '', command, ...defaults, ...fields })
  return {
    id,
    ended: ended.promise,
    async outputMatches(pattern) {
      while (!pattern.test(output[1])) await new Promise<void>((resolve) => watchers.add(resolve))
    },
  }
}

export const run = async (sandbox: LiveSandbox | { link: SupervisorLink }, command: string): Promise<Ran> =>
  (await start(sandbox.link, command)).ended
