import { sleep } from '@boxoffice/kit/sleep'
import { ListPortsResponse } from '@boxoffice/protocol'
import { isCode } from '../base/errors.ts'
import { query } from '../base/query.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { retrying } from '../network/backoff.ts'
import { readJson } from '../network/http.ts'
import { PortSocket, WINDOW_BYTES } from '../stream/port-connection.ts'
import { afterDrop, type Drop, leadsNowhere } from '../stream/reconnect.ts'
import type { ExposedPort, ExposeOptions, LinkOptions, Previews } from './previews.ts'

/** A TCP port of the sandbox on which a program listens. */
export type ListeningPort = { port: number }

/** A TCP connection to a program of the sandbox. Each way ends by itself. */
export type PortConnection = {
  readonly port: number
  /** The address on which the program listens. */
  readonly host: string
  /** What the program sends. Errors where the connection breaks. */
  readonly readable: ReadableStream<Uint8Array>
  /** What it gets. Closing tells it that this was all; `readable` goes on. */
  readonly writable: WritableStream<Uint8Array>
  /** Resolves when both ways have ended or `close` was called, rejects where the connection broke. */
  readonly closed: Promise<void>
  /** Breaks the connection off. */
  close(): void
}

type Options = { signal?: AbortSignal | undefined }

const LOST = 1006

/** Ports of a session's sandbox, on its loopback. They need the capability `ports`, which is asked for by name. */
export class Ports {
  readonly #dataplane: Dataplane
  readonly #previews: Previews

  constructor(dataplane: Dataplane, previews: Previews) {
    this.#dataplane = dataplane
    this.#previews = previews
  }

  /** Gives a port a host of its own for browsers, or changes the terms of one that has it. Takes the owner of the session. */
  expose(port: number, options: ExposeOptions = {}): Promise<ExposedPort> {
    return this.#previews.expose(port, options)
  }

  /** The ports that have a host. */
  exposed({ signal }: Options = {}): Promise<ExposedPort[]> {
    return this.#previews.list(signal)
  }

  /** Takes the host of a port away, for good; what is open to it is cut. */
  withdraw(port: number, { signal }: Options = {}): Promise<void> {
    return this.#previews.withdraw(port, signal)
  }

  /** A link to an exposed port that lets one browser in, once. */
  link(port: number, options: LinkOptions = {}): Promise<{ url: string; expiresAt: Date }> {
    return this.#previews.link(port, options)
  }

  /** Where somebody listens now. */
  async list({ signal }: Options = {}): Promise<ListeningPort[]> {
    const { reconnectWindowMs: windowMs, signal: life } = this.#dataplane
    const ask = (): Promise<Response> => this.#dataplane.request('/ports', { signal })
    const response = await retrying(ask, { windowMs, signal: anySignal(signal, life) })
    return (await readJson(response, ListPortsResponse, signal)).ports
  }

  /** Connects to a port. Rejects with PORT_NOT_LISTENING where nobody listens. A connection that drops is not mended. */
  async connect(port: number, { signal }: Options = {}): Promise<PortConnection> {
    const { endpoints, reconnectWindowMs: windowMs, signal: life } = this.#dataplane
    const stop = anySignal(signal, life)
    const failingSince = performance.now()
    let rejected: string | undefined
    for (let attempt = 0; ; attempt++) {
      stop?.throwIfAborted()
      const endpoint = endpoints.current
      const { socket, token, outcome } = await this.#attempt(port, rejected, stop)
      if (socket !== undefined && 'host' in outcome) {
        endpoints.worked(endpoint)
        const leave = (): void => socket.close()
        stop?.addEventListener('abort', leave, { once: true })
        const { readable, writable, closed } = socket
        closed.catch(() => {}).finally(() => stop?.removeEventListener('abort', leave))
        return { port, host: outcome.host, readable, writable, closed, close: leave }
      }
      const drop = outcome as Drop
      const renewed = rejected !== undefined
      if (token !== undefined) rejected = undefined
      if (token !== undefined && leadsNowhere(endpoint, drop)) await endpoints.failed(endpoint, drop.unopened === true)
      const next = afterDrop(drop, { attempt, failingForMs: performance.now() - failingSince, windowMs, renewed })
      if (next.type === 'fail') throw next.error
      if (next.type === 'renew') rejected = token
      else await sleep(next.delayMs, stop)
    }
  }

  async #attempt(
    port: number,
    rejected: string | undefined,
    stop: AbortSignal | undefined,
  ): Promise<{ socket?: PortSocket; token?: string; outcome: { host: string } | Drop }> {
    const { token: tokens, endpoints } = this.#dataplane
    const url = `${endpoints.current.wsBaseUrl}/ports/${port}${query({ window: WINDOW_BYTES })}`
    let token: string
    try {
      token = await (rejected === undefined ? tokens.current() : tokens.renew(rejected))
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED')) throw error
      return { outcome: { code: LOST, reason: error.message, url } }
    }
    const socket = new PortSocket(this.#dataplane, url, token)
    const leave = (): void => socket.close()
    stop?.addEventListener('abort', leave, { once: true })
    const outcome = await socket.opened
    stop?.removeEventListener('abort', leave)
    return { socket, token, outcome }
  }
}
