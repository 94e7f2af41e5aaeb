import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { hasBody, passRequest, passUpgrade } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { requestHeaders, responseHeaders, type Target } from './headers.ts'
import { type Dial, TunnelAgent } from './tunnel-agent.ts'

export type PreviewProxyOptions = {
  /** Connects to a port of the sandbox; rejects with PORT_NOT_LISTENING, TIMEOUT, RATE_LIMITED. */
  dial: Dial
  port: number
  /** For how long the program may leave a request without the beginning of an answer; by default five minutes. */
  answerWithinMs?: number
}

/** A client that asks for a WebSocket, with what it has sent after its request. */
export type ProxiedSocket = { incoming: IncomingMessage; socket: Duplex; head: Buffer; target: Target }

/** A reverse proxy to one port of one sandbox. Bodies pass as they come, both ways; nothing is kept, and what has begun has no time limit. */
export interface PreviewProxy {
  /**
   * Passes a request on and its response back. Rejects while no response has begun, with what a client should hear; after that a
   * failure cuts the client's connection. The program's request ends with the client's.
   */
  request(incoming: IncomingMessage, outgoing: ServerResponse, target: Target): Promise<void>
  /** The same for a WebSocket, which lives until one side closes. */
  upgrade(client: ProxiedSocket): Promise<void>
}

/** Requests and sockets of one preview at once, those that wait for a connection too. */
const MAX_REQUESTS = 512
/** Longer than a long poll waits. A program that answers nobody would else keep its connections from all who come later. */
const ANSWER_WITHIN_MS = 300_000

export const createPreviewProxy = ({ dial, port, answerWithinMs = ANSWER_WITHIN_MS }: PreviewProxyOptions): PreviewProxy => {
  const agent = new TunnelAgent(dial, port)
  let requests = 0

  const counted = async (work: () => Promise<void>): Promise<void> => {
    if (requests >= MAX_REQUESTS)
      throw new BoxofficeError('RATE_LIMITED', `port ${port} has ${MAX_REQUESTS} requests at once, which is the most`, { retryAfter: 1 })
    requests++
    try {
      await work()
    } catch (error) {
      throw unanswered(error as Error)
    } finally {
      requests--
    }
  }

  return {
    request: (incoming, outgoing, target) =>
      counted(() => {
        const { method, url: path } = incoming
        const headers = requestHeaders(incoming, target, { isUpgrade: false })
        const begin = () => endUnanswered(request({ agent, method, path, headers }), incoming, answerWithinMs)
        return passRequest({ incoming, outgoing, begin, headersOf: (response) => responseHeaders(response, target) })
      }),
    upgrade: ({ incoming, socket, head, target }) =>
      counted(async () => {
        const tunnel = await dial(port)
        if (socket.destroyed) return void tunnel.destroy()
        const headers = requestHeaders(incoming, target, { isUpgrade: true })
        // Without an agent of any kind: one would connect by itself, to a port of this machine.
        const upstream = endUnanswered(
          request({ createConnection: () => tunnel, method: 'GET', path: incoming.url, headers }),
          incoming,
          answerWithinMs,
        )
        await passUpgrade({ socket, head, upstream, headersOf: (response) => responseHeaders(response, target) })
      }),
  }
}

/** Ends a request that is not answered in time, counted from the last part of its body. */
const endUnanswered = (upstream: ClientRequest, incoming: IncomingMessage, withinMs: number): ClientRequest => {
  let isAnswered = false
  const message = `The program behind this port did not begin an answer within ${withinMs / 1000} s`
  const late = setTimeout(() => upstream.destroy(new BoxofficeError('CONNECTION_RESET', message)), withinMs).unref()
  const answered = (): void => {
    isAnswered = true
    clearTimeout(late)
  }
  upstream.once('response', answered).once('upgrade', answered).once('close', answered)
  // A timer that was cleared would run again.
  if (hasBody(incoming)) incoming.on('data', () => !isAnswered && late.refresh())
  return upstream
}

/** What a client hears of a program that did not answer. */
const unanswered = (error: Error): BoxofficeError =>
  error instanceof BoxofficeError
    ? error
    : new BoxofficeError('CONNECTION_RESET', 'The program behind this port broke the connection off, or does not speak HTTP', {
        cause: error,
      })
