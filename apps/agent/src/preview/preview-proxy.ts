import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { hasBody, hasUnread } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { requestHeaders, responseHeaders, type Target } from './headers.ts'
import { TunnelAgent } from './tunnel-agent.ts'
import { type ProxiedSocket, proxyUpgrade } from './upgrade.ts'

export type PreviewProxyOptions = {
  /** Connects to a port of the sandbox; rejects with PORT_NOT_LISTENING, TIMEOUT, RATE_LIMITED. */
  dial: ConstructorParameters<typeof TunnelAgent>[0]
  port: number
}

/** A reverse proxy to one port of one sandbox. Bodies pass as they come, both ways; nothing is kept and nothing has a time limit. */
export interface PreviewProxy {
  /**
   * Passes a request on and its response back. Rejects while no response has begun, with what a client should hear; after that a
   * failure cuts the client's connection. The program's request ends with the client's.
   */
  request(incoming: IncomingMessage, outgoing: ServerResponse, target: Target): Promise<void>
  /** The same for a WebSocket, which lives until one side closes or `ProxiedSocket.cut`. */
  upgrade(client: ProxiedSocket): Promise<void>
}

/** Requests of one preview at once, those that wait for a connection too. */
const MAX_REQUESTS = 512
/** What may be sent again after a kept connection was closed by its program in the same moment. */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS'])

export const createPreviewProxy = ({ dial, port }: PreviewProxyOptions): PreviewProxy => {
  const agent = new TunnelAgent(dial, port)
  let requests = 0

  const counted = async (work: () => Promise<void>): Promise<void> => {
    if (requests >= MAX_REQUESTS)
      throw new BoxofficeError('RATE_LIMITED', `port ${port} has ${MAX_REQUESTS} requests at once, which is the most`, { retryAfter: 1 })
    requests++
    try {
      await work()
    } finally {
      requests--
    }
  }

  return {
    request: (incoming, outgoing, target) => counted(() => forward({ agent, incoming, outgoing, target }, true)),
    upgrade: (client) =>
      counted(() =>
        proxyUpgrade(dial, client).catch((error: Error) => {
          throw unanswered(error)
        }),
      ),
  }
}

type Exchange = { agent: TunnelAgent; incoming: IncomingMessage; outgoing: ServerResponse; target: Target }

const forward = async (exchange: Exchange, mayRepeat: boolean): Promise<void> => {
  const { agent, incoming, outgoing, target } = exchange
  if (outgoing.destroyed) return
  const { method = 'GET', url: path = '/' } = incoming
  const headers = requestHeaders(incoming, target, { isUpgrade: false })
  const upstream = request({ agent, method, path, headers, setHost: false })
  const clientAborted = (): void => {
    if (!outgoing.writableFinished) upstream.destroy(new Error('the client closed the connection'))
  }
  outgoing.once('close', clientAborted)
  try {
    await exchanged(upstream, exchange)
  } catch (error) {
    const stale = upstream.reusedSocket && !outgoing.headersSent && !outgoing.destroyed
    if (mayRepeat && stale && REPEATABLE.has(method) && !hasBody(incoming)) {
      outgoing.off('close', clientAborted)
      return forward(exchange, false)
    }
    throw error
  } finally {
    outgoing.off('close', clientAborted)
  }
}

/** Resolves when the response has gone out, or its failure has been told by a cut; rejects before it has begun. */
const exchanged = (upstream: ClientRequest, { incoming, outgoing, target }: Exchange): Promise<void> =>
  new Promise((resolve, reject) => {
    upstream.on('information', ({ statusCode, headers }) => {
      if (statusCode === 103 && headers.link !== undefined) outgoing.writeEarlyHints({ link: headers.link })
      else if (statusCode === 102) outgoing.writeProcessing()
    })
    upstream.on('response', (response) => {
      const headers = responseHeaders(response.rawHeaders, response.headers, target)
      // Where the next request of the client begins, nobody knows who has not read the body.
      if (hasUnread(incoming)) headers.push('Connection', 'close')
      outgoing.writeHead(response.statusCode ?? 502, response.statusMessage, headers)
      // An event stream that has yet to say something has begun all the same.
      outgoing.flushHeaders()
      pipeline(response, outgoing, (error) => {
        if (error) outgoing.destroy()
        resolve()
      })
    })
    upstream.on('error', (error) => {
      if (outgoing.headersSent) {
        outgoing.destroy()
        resolve()
      } else reject(unanswered(error))
    })
    if (hasBody(incoming)) incoming.pipe(upstream)
    else upstream.end()
  })

/** What a client hears of a program that did not answer. */
const unanswered = (error: Error): BoxofficeError =>
  error instanceof BoxofficeError
    ? error
    : new BoxofficeError('CONNECTION_RESET', 'The program behind this port broke the connection off, or does not speak HTTP', {
        cause: error,
      })
