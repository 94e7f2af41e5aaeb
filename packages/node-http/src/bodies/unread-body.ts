import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long, and for how many bytes, a client may go on sending a body that nobody wants before its connection is cut. */
const LINGER_MS = 1000
const LINGER_BYTES = 64 * 1024 * 1024

/** Whether the headers announce a body. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0')

/** Whether part of the body is still to come: a response now has to say `Connection: close`. */
export const hasUnread = (incoming: IncomingMessage): boolean => !incoming.complete && hasBody(incoming)

/**
 * Ends a response whose body is written. Where the client is still sending, closing now would make its kernel drop what it has not
 * read: it gets the response and a moment.
 */
export function finish(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (!hasUnread(incoming)) return void outgoing.end()
  let bytes = 0
  const done = (): void => {
    clearTimeout(timer)
    incoming.off('data', onData).off('end', done).off('close', done)
    outgoing.end()
  }
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > LINGER_BYTES) done()
  }
  const timer = setTimeout(done, LINGER_MS)
  // Whoever was reading does so no more.
  incoming.removeAllListeners('data').unpipe()
  incoming.on('data', onData).on('end', done).on('close', done)
  incoming.resume()
}

/**
 * Makes a response that begins before its request has arrived whole say `Connection: close`, and end as `finish` ends it. Without the word a
 * client sends its next request on a connection that is about to be cut. For listeners that write responses without a look at the body.
 */
export function closeWhereUnread(incoming: IncomingMessage, outgoing: ServerResponse): void {
  const writeHead = outgoing.writeHead.bind(outgoing) as (...args: unknown[]) => ServerResponse
  const end = outgoing.end.bind(outgoing) as (...args: unknown[]) => ServerResponse
  outgoing.writeHead = (...args: unknown[]) => {
    if (hasUnread(incoming)) outgoing.setHeader('Connection', 'close')
    return writeHead(...args)
  }
  outgoing.end = (...args: unknown[]) => {
    if (!outgoing.headersSent || outgoing.getHeader('Connection') !== 'close') return end(...args)
    const [chunk] = args
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) outgoing.write(chunk)
    outgoing.end = end
    finish(incoming, outgoing)
    return outgoing
  }
}
