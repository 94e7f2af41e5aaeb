import { Agent, type ClientRequestArgs } from 'node:http'
import type { Duplex } from 'node:stream'

/** Connects to a port of the sandbox; rejects with a `BoxofficeError`. */
export type Dial = (port: number) => Promise<Duplex>

/** Connections to one port at once, below the number that the sandbox has for all; more requests wait for one. */
const MAX_CONNECTIONS = 200
/** Of those that nobody has used for a while. All are kept until then: each of many clients pauses between its requests. */
const MAX_IDLE = 8
const IDLE_AFTER_MS = 1000

/**
 * Connections of one preview to its program, kept for the next request as a browser would keep them. They are streams over the
 * supervisor and no sockets: there is nothing to set on them.
 */
export class TunnelAgent extends Agent {
  readonly #dial: Dial
  readonly #port: number
  /** Milliseconds, monotonic. */
  readonly #idleSince = new WeakMap<Duplex, number>()
  #trim: NodeJS.Timeout | undefined

  constructor(dial: Dial, port: number) {
    super({ keepAlive: true, maxSockets: MAX_CONNECTIONS, maxFreeSockets: MAX_CONNECTIONS, scheduling: 'lifo' })
    this.#dial = dial
    this.#port = port
  }

  override createConnection(_options: ClientRequestArgs, opened?: (error: Error | null, stream: Duplex) => void): undefined {
    this.#dial(this.#port).then(
      (tunnel) => {
        // A program that says good-bye while nothing is asked of it: the connection is over for both.
        tunnel.once('end', () => tunnel.end())
        // The base class takes it for a socket, which it would keep the process alive for.
        opened?.(null, Object.assign(tunnel, { ref() {} }))
      },
      (error: Error) => opened?.(error, undefined as unknown as Duplex),
    )
    return undefined
  }

  override keepSocketAlive(tunnel: Duplex): boolean {
    this.#idleSince.set(tunnel, performance.now())
    this.#trim ??= setTimeout(() => this.#trimIdle(), IDLE_AFTER_MS).unref()
    return true
  }

  #trimIdle(): void {
    const before = performance.now() - IDLE_AFTER_MS
    // The last one that became idle is used first.
    const idle = Object.values(this.freeSockets).flatMap((tunnels: Duplex[] = []) => tunnels.slice(0, -MAX_IDLE))
    for (const tunnel of idle) if ((this.#idleSince.get(tunnel) ?? 0) <= before) tunnel.destroy()
    this.#trim = idle.length === 0 ? undefined : setTimeout(() => this.#trimIdle(), IDLE_AFTER_MS).unref()
  }
}
