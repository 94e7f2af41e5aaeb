import { ExecSummary } from '@boxoffice/protocol'
import type { SessionDataplane } from '../../../dataplane/client.ts'
import type { Log } from '../../../host/log.ts'

/** Nothing tells when a command has ended by itself: its entry is kept no longer. */
const MAX_SECONDS = 86_400
const CHECK_AGAIN_SECONDS = 1

/** Ends commands that no client has been attached to for as long as their `idle_timeout_seconds` (contract 7.2). */
export class Unattended {
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  /** The last client of this broker has left a command that goes on. */
  left(sessionId: string, commandId: string, dataplane: SessionDataplane, seconds: number): void {
    const key = `${sessionId} ${commandId}`
    this.attended(sessionId, commandId)
    const end = (): void => {
      this.#timers.delete(key)
      void this.#end(commandId, dataplane)
        .then((isAttended) => {
          if (isAttended) this.left(sessionId, commandId, dataplane, Math.max(seconds, CHECK_AGAIN_SECONDS))
        })
        .catch((thrown: unknown) =>
          this.#log.info({ session_id: sessionId, exec_id: commandId, err: thrown }, 'a command without a client was not ended'),
        )
    }
    this.#timers.set(key, setTimeout(end, Math.min(seconds, MAX_SECONDS) * 1000).unref())
  }

  /** A client has it again, or it has ended. */
  attended(sessionId: string, commandId: string): void {
    const key = `${sessionId} ${commandId}`
    clearTimeout(this.#timers.get(key))
    this.#timers.delete(key)
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
  }

  /** True: a client has come by another way, which its agent knows, or has just left. */
  async #end(commandId: string, dataplane: SessionDataplane): Promise<boolean> {
    const path = `/execs/${encodeURIComponent(commandId)}`
    const { state, attached } = await dataplane.json({ method: 'GET', path }, ExecSummary)
    if (state !== 'running') return false
    if (attached > 0) return true
    await dataplane.done({ method: 'POST', path: `${path}/signal`, json: { signal: 'KILL' } })
    return false
  }
}
