import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'

/** Answers on a connection for which there is no `ServerResponse`, before an upgrade for example, and closes it. */
export function rawResponse(socket: Duplex, status: number, headers: Record<string, string>, body: string): void {
  if (socket.destroyed) return
  socket.on('error', () => {})
  const all = { ...headers, 'Content-Length': String(Buffer.byteLength(body)), Connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n'))
}
