import type { McpServerRow } from '../../store/mcp-server-store.ts'
import type { Peer, PeerClient } from './peers/peer-client.ts'

type Forward = { name: string; owner: string; gone: AbortController }

/** Requests that are passed on to the brokers that have the servers, each followed until its answer has ended. */
export class Forwards {
  readonly #peers: Pick<PeerClient, 'forward'>
  readonly #closing: AbortSignal
  readonly #open = new Set<Forward>()

  constructor(peers: Pick<PeerClient, 'forward'>, closing: AbortSignal) {
    this.#peers = peers
    this.#closing = closing
  }

  /** `sid`: the session of the server's sandbox, which the peer compares with its own. */
  async send(peer: Peer, name: string, sid: string, request: Request): Promise<Response> {
    const gone = new AbortController()
    const forward = { name, owner: peer.id, gone }
    this.#open.add(forward)
    const signal = AbortSignal.any([gone.signal, request.signal, this.#closing])
    try {
      const response = await this.#peers.forward(peer, name, request, { sid, signal })
      if (response.body === null) this.#open.delete(forward)
      return response.body === null
        ? response
        : new Response(
            ending(response.body, () => this.#open.delete(forward)),
            response,
          )
    } catch (thrown) {
      this.#open.delete(forward)
      throw thrown
    }
  }

  /** Ends those to brokers that have their server no more. */
  follow(rowOf: (name: string) => McpServerRow | undefined): void {
    for (const { name, owner, gone } of this.#open) {
      const row = rowOf(name)
      if (row === undefined || row.owner !== owner || !row.isHeld) gone.abort()
    }
  }
}

/** The same bytes; `ended` is called after the last one, or when nobody wants more. */
function ending(body: ReadableStream<Uint8Array>, ended: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        ended()
        controller.close()
      } catch (thrown) {
        ended()
        controller.error(thrown)
      }
    },
    cancel(reason) {
      ended()
      return reader.cancel(reason)
    },
  })
}
