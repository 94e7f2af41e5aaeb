import type { Duplex } from 'node:stream'

/** Until a client that has been refused closes its side; what it sends until then is read and dropped. */
const LINGER_MS = 5000

/** Sends the last bytes and ends. Many clients read an answer only after they have sent everything. */
export function endWith(connection: Duplex, bytes: Buffer | string): void {
  const timer = setTimeout(() => connection.destroy(), LINGER_MS)
  connection.once('close', () => clearTimeout(timer))
  connection.resume()
  connection.end(bytes)
}

/** Breaks a connection off, so that its other end does not take what it got for all. */
export function breakOff(connection: Duplex): void {
  if ('resetAndDestroy' in connection && typeof connection.resetAndDestroy === 'function') connection.resetAndDestroy()
  else connection.destroy()
}
