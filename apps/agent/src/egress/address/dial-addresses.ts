import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import type { IpAddress } from './ip-address.ts'

/** Connects to one address; rejects where nobody takes the connection. The signal gives up. */
export type Dial = (to: { address: string; port: number }, signal: AbortSignal) => Promise<Duplex>

/** An origin that has gone without a word is found by the kernel: its connection counts until then. */
const KEEP_ALIVE_MS = 60_000

/** The next address is tried after so long without an answer (RFC 8305). */
const NEXT_AFTER_MS = 250

/** Connects by TCP. Each way of the connection ends by itself. */
export const dialTcp: Dial = ({ address, port }, signal) =>
  new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
    })
    const abort = (): void => void socket.destroy(new Error('no answer in time'))
    const settled = (): void => signal.removeEventListener('abort', abort)
    socket.once('error', (error) => {
      settled()
      reject(error)
    })
    socket.once('connect', () => {
      settled()
      resolve(socket)
    })
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
  })

/**
 * The first connection that one of the addresses takes, tried in order. One that refuses is followed by the next at once, one that does not
 * answer after 250 ms. Rejects with the error of the last address, or after `timeoutMs` in all.
 */
export async function dialAddresses(addresses: readonly IpAddress[], port: number, dial: Dial, timeoutMs: number): Promise<Duplex> {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), timeoutMs)
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>()
  let running = 0
  let next = 0
  let isWon = false
  let hurry: NodeJS.Timeout | undefined
  const tryNext = (): void => {
    clearTimeout(hurry)
    const address = addresses[next++]
    if (address === undefined) return
    running++
    if (next < addresses.length) hurry = setTimeout(tryNext, NEXT_AFTER_MS)
    dial({ address: address.text, port }, limit.signal).then(won, lost)
  }
  const won = (connection: Duplex): void => {
    connection.on('error', () => {})
    if (isWon) return void connection.destroy()
    isWon = true
    resolve(connection)
  }
  const lost = (error: unknown): void => {
    running--
    if (isWon) return
    if (next < addresses.length && !limit.signal.aborted) tryNext()
    else if (running === 0) reject(error)
  }
  // Also where a dial does not mind the signal.
  limit.signal.addEventListener('abort', () => reject(new Error('no answer in time')), { once: true })
  tryNext()
  try {
    return await promise
  } finally {
    clearTimeout(hurry)
    clearTimeout(timer)
    // The dials that were slower. An abort with nobody to hear it costs as much as a dial.
    if (running > 1) limit.abort()
  }
}
