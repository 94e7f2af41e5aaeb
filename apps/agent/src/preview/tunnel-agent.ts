import { Agent, type ClientRequestArgs } from 'node:http'
import type { Duplex } from 'node:stream'

/** Connects to a port of the sandbox; rejects with a `BoxofficeError`. */
export type Dial = (port: number) => Promise<Duplex>

/** Connections to one port at once, below the number that the sandbox has for all; more requests wait for one. */
const MAX_CONNECTIONS = 200
const MAX_IDLE = 8

/**
 * Connections of one preview to its program, kept for the next request as a browser would keep them. They are streams over the
 * supervisor and no sockets: there is nothing to set on them.
 */
export class TunnelAgent extends Agent {
  readonly #dial: Dial
  readonly #port: number

  constructor(dial: Dial, port: number) {
    super({ keepAlive: true, maxSockets: MAX_CONNECTIONS, maxFreeSockets: MAX_IDLE, scheduling: 'lifo' })
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

  override keepSocketAlive(): boolean {
    return true
  }
}
