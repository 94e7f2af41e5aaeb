import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import { isFast } from '@boxoffice/node-http'

/** What Node reads at once. */
const READ_BYTES = 64 * 1024

/** A read has been dealt with before the next one begins, on whatever connection: one buffer is enough for all. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES)

/** Node's own name for what a socket stands on; its types know only the handles that are bound by hand. */
type Owner = { _handle?: SocketConstructorOpts['handle'] | null }

/**
 * Reads a connection that was accepted with `pauseOnConnect` into memory that is used over and over, and returns the socket to write
 * to and to listen on. `received` has each chunk until it returns: what it keeps, it has to copy. Otherwise Node makes a buffer of
 * 64 KiB for each read, and a fast stream spends a third of its time on them. Node offers this (`onread`) only to sockets that
 * somebody constructs, so the connection moves to one; where that is not possible, it is read as any other.
 */
export const readShared = (accepted: Socket, received: (chunk: Buffer) => void): Socket => {
  const owner = accepted as unknown as Owner
  const handle = owner._handle
  if (handle === undefined || handle === null || !isFast('sharedReads')) {
    accepted.on('data', received)
    accepted.resume()
    return accepted
  }
  owner._handle = null
  // Without its handle it only leaves the server's count.
  accepted.destroy()
  const onread: OnReadOpts = {
    buffer: shared,
    callback: (length) => {
      received(shared.subarray(0, length))
      return true
    },
  }
  return new Socket({ handle, readable: true, writable: true, onread })
}
