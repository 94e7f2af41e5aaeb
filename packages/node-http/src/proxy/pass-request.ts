import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { hasBody, hasUnread } from '../bodies/unread-body.ts'

export type PassedRequest = {
  incoming: IncomingMessage
  outgoing: ServerResponse
  /** Begins the request upstream; called once more where a kept connection was closed as it was used. */
  begin: () => ClientRequest
  /** The headers that the client gets of a response, as `[name, value, …]`, without those of the connection. */
  headersOf: (response: IncomingMessage) => string[]
}

/** What may be sent again: it changes nothing, and has no body that would be gone. */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Passes a request on and its response back, as their bytes come; nothing is kept and nothing has a time limit. Rejects with the error of
 * `begin` while no response has begun; after that a failure cuts the client's connection. The request upstream ends with the client's.
 */
export const passRequest = async (passed: PassedRequest, mayRepeat = true): Promise<void> => {
  const { incoming, outgoing, begin } = passed
  if (outgoing.destroyed) return
  const upstream = begin()
  const clientAborted = (): void => {
    if (!outgoing.writableFinished) upstream.destroy(new Error('the client closed the connection'))
  }
  outgoing.once('close', clientAborted)
  try {
    await exchanged(upstream, passed)
  } catch (error) {
    const isStale = upstream.reusedSocket && !outgoing.headersSent && !outgoing.destroyed
    if (!mayRepeat || !isStale || !REPEATABLE.has(incoming.method ?? '') || hasBody(incoming)) throw error
    outgoing.off('close', clientAborted)
    await passRequest(passed, false)
  } finally {
    outgoing.off('close', clientAborted)
  }
}

const exchanged = (upstream: ClientRequest, { incoming, outgoing, headersOf }: PassedRequest): Promise<void> =>
  new Promise((resolve, reject) => {
    upstream.on('information', ({ statusCode, headers }) => {
      try {
        if (statusCode === 103 && headers.link !== undefined) outgoing.writeEarlyHints({ link: headers.link })
        else if (statusCode === 102) outgoing.writeProcessing()
      } catch {
        // Node does not take every link for one; a client misses nothing but time.
      }
    })
    upstream.on('response', (response) => {
      try {
        const headers = headersOf(response)
        // Where the next request of the client begins, nobody knows who has not read the body.
        if (hasUnread(incoming)) headers.push('Connection', 'close')
        // Its reason is not passed on: it says nothing to programs, and may hold characters that Node does not write.
        outgoing.writeHead(response.statusCode ?? 502, headers)
      } catch (error) {
        // Node's parser takes statuses that it does not write.
        upstream.destroy()
        return reject(error)
      }
      resolve(passBody(response, outgoing))
    })
    upstream.on('upgrade', (_, stream) => {
      stream.destroy()
      reject(new Error('the other side switched to another protocol unasked'))
    })
    upstream.on('error', (error) => {
      if (!outgoing.headersSent) return reject(error)
      cut(outgoing)
      resolve()
    })
    if (hasBody(incoming)) incoming.pipe(upstream)
    else upstream.end()
  })

/**
 * The head and what has come of the body with it leave in one write, which is one record of TLS. The head never waits for more: an event stream
 * that has yet to say something has begun all the same. Resolves where either side has ended; what breaks off cuts the client's connection.
 */
const passBody = (response: IncomingMessage, outgoing: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    outgoing.once('finish', resolve)
    outgoing.once('close', resolve)
    const { socket } = outgoing
    response.on('error', () => {})
    response.once('close', () => {
      if (!response.complete) cut(outgoing)
    })
    // Not of the response: what is chunked would follow its own end.
    socket?.cork()
    outgoing.flushHeaders()
    response.pipe(outgoing)
    // Its end uncorks by itself, and the socket may already be of the next response.
    setImmediate(() => outgoing.writableEnded || socket?.uncork())
  })

/** Breaks the client's connection off; what is corked goes before. */
const cut = (outgoing: ServerResponse): void => {
  outgoing.socket?.uncork()
  outgoing.destroy()
}
