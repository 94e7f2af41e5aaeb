import { existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { canBeHeld, type HeldBody, LARGE_BODY_BYTES, type Moved, Mover, SHIPPED_SUPERVISORS } from '@boxoffice/node-http'

/** `path`: the supervisor's binary. `patienceMs`: how long nothing may move. */
export type PassOptions = { path: string; patienceMs?: number }

/** Where there is none, large uploads pass through the broker as others do. `configured`: a path, or false for none. */
export function passOf(configured: string | false | undefined): PassOptions | undefined {
  const candidates = configured === undefined ? SHIPPED_SUPERVISORS : configured === false ? [] : [configured]
  const path = candidates.find((candidate) => existsSync(candidate))
  return path === undefined ? undefined : { path }
}

/** The agent gives up an upload of which nothing comes for 120 s, and says so. This is for an agent that does not. */
const PATIENCE_MS = 150_000
/** How long the process may still run when the answer is there: one that has moved everything ends at once. */
const END_WITHIN_MS = 200

/** Whether the rest of a body is worth it, and neither connection has bytes of it that only this process sees. */
export const canPass = (incoming: IncomingMessage, agent: Socket, rest: number): boolean =>
  rest >= LARGE_BODY_BYTES && Mover.available && agent.writableLength === 0 && !(agent instanceof TLSSocket) && canBeHeld(incoming)

/** The rest of a large body on its way to the agent past this process, in the kernel. */
export class Pass {
  readonly #mover: Mover
  readonly #held: HeldBody

  constructor({ path, patienceMs = PATIENCE_MS }: PassOptions, { held, agent, rest }: { held: HeldBody; agent: Socket; rest: number }) {
    this.#held = held
    this.#mover = new Mover(path, { from: held.socket, to: agent, as: 'bytes', bytes: rest, patienceMs })
  }

  /** What came of it: `all` only when Node has read nothing meanwhile. */
  async moved(): Promise<Moved> {
    const moved = await this.#mover.moved
    return moved === 'all' && !this.#held.untouched ? 'broken' : moved
  }

  /** The answer is there: ends it, also before all is moved. */
  settle(): Promise<Moved> {
    return withTimeout(this.moved(), END_WITHIN_MS, () => {
      this.kill()
      return this.moved()
    })
  }

  kill(): void {
    this.#mover.kill()
  }
}
