import { existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { canDetach, type DetachedRequest, LARGE_BODY_BYTES, SHIPPED_SUPERVISORS, Splice, type SpliceOutcome } from '@boxoffice/node-http'

/** `path`: the supervisor's binary. `patienceMs`: how long nothing may move. */
export type UploadSpliceOptions = { path: string; patienceMs?: number }

/** Where there is none, large uploads pass through the broker as others do. `configured`: a path, or false for none. */
export function uploadSpliceFrom(configured: string | false | undefined): UploadSpliceOptions | undefined {
  const candidates = configured === undefined ? SHIPPED_SUPERVISORS : configured === false ? [] : [configured]
  const path = candidates.find((candidate) => existsSync(candidate))
  return path === undefined ? undefined : { path }
}

/** The agent gives up an upload of which nothing comes for 120 s, and says so. This is for an agent that does not. */
const PATIENCE_MS = 150_000
/** How long the process may still run when the response is there: one that has moved everything ends at once. */
const END_WITHIN_MS = 200

/** Whether the rest of a body is worth it, and neither connection has bytes of it that only this process sees. */
export const canSplice = (incoming: IncomingMessage, agent: Socket, rest: number): boolean =>
  rest >= LARGE_BODY_BYTES && Splice.available && agent.writableLength === 0 && !(agent instanceof TLSSocket) && canDetach(incoming)

/** The rest of a large body on its way to the agent past this process, in the kernel. */
export class UploadSplice {
  readonly #splice: Splice
  readonly #detached: DetachedRequest

  constructor(
    { path, patienceMs = PATIENCE_MS }: UploadSpliceOptions,
    { detached, agent, rest }: { detached: DetachedRequest; agent: Socket; rest: number },
  ) {
    this.#detached = detached
    this.#splice = new Splice(path, { from: detached.socket, to: agent, as: 'bytes', bytes: rest, patienceMs })
  }

  /** What came of it: `all` only when Node has read nothing meanwhile. */
  async outcome(): Promise<SpliceOutcome> {
    const outcome = await this.#splice.outcome
    return outcome === 'all' && !this.#detached.untouched ? 'broken' : outcome
  }

  /** The response is there: ends it, also before all is moved. */
  settle(): Promise<SpliceOutcome> {
    return withTimeout(this.outcome(), END_WITHIN_MS, () => {
      this.kill()
      return this.outcome()
    })
  }

  kill(): void {
    this.#splice.kill()
  }
}
