import { setTimeout as delay } from 'node:timers/promises'
import { createTracker } from '../../exec/tracker.ts'
import { startingError } from '../../sandbox/end.ts'
import type { Gone, ProcessTracker } from '../../sandbox/process-tracker.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { SupervisorLink } from '../../supervisor/link.ts'

export type SandboxLinkParts = {
  sandbox: Sandbox
  /** The link broke, and has not come back yet. */
  onBroken: () => Promise<void>
  /** Nobody asks any more what has become of it. */
  closed: AbortSignal
}

/** After a broken link: when to ask the engine. It may learn of an end a little later than we do. */
const LOOKS_MS = [0, 50, 200, 1000]

/** The link to one sandbox's supervisor and the tracker of the processes behind it: a stop ends both, and a wake makes others. */
export class SandboxLink {
  readonly #parts: SandboxLinkParts
  #link: SupervisorLink | undefined
  #tracker: ProcessTracker | undefined

  constructor(parts: SandboxLinkParts) {
    this.#parts = parts
  }

  /** Throws SANDBOX_STARTING before the first one, and between a stop and a wake. */
  get current(): SupervisorLink {
    if (this.#link === undefined) throw startingError()
    return this.#link
  }

  /** Whether the supervisor can be spoken to right now. */
  get connected(): boolean {
    return this.#link?.connected ?? false
  }

  /** Of the current link; made when it is first asked for. */
  get tracker(): ProcessTracker {
    this.#tracker ??= createTracker(this.#parts.sandbox, this.current, { adopted: false })
    return this.#tracker
  }

  /** Takes a link that waits for its supervisor. `adopted`: processes of an earlier run of the agent may be behind it. */
  take(link: SupervisorLink, { adopted }: { adopted: boolean }): void {
    this.#link = link
    this.#tracker = undefined
    link.onConnection((connected) => {
      if (!connected && this.#link === link) void this.#lookAfter(link)
    })
    if (adopted) this.#tracker = createTracker(this.#parts.sandbox, link, { adopted })
  }

  /** The processes are gone with the sandbox: whoever follows them hears so. */
  gone(how: Gone): void {
    this.#tracker?.gone(how)
  }

  async close(): Promise<void> {
    await this.#link?.close()
  }

  /** After a stop: the supervisor that dials next is another one. */
  async drop(): Promise<void> {
    await this.close()
    this.#link = undefined
    this.#tracker = undefined
  }

  /** A link that broke may come back (a supervisor never leaves by itself), or be the first sign of an end. */
  async #lookAfter(link: SupervisorLink): Promise<void> {
    for (const wait of LOOKS_MS) {
      if (wait > 0) await delay(wait, undefined, { ref: false })
      if (link.connected || this.#link !== link || this.#parts.closed.aborted) return
      await this.#parts.onBroken()
    }
  }
}
