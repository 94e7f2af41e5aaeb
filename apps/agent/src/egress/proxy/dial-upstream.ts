import { connect as connectTcp } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { type Parse, readHead } from './read-head.ts'

/**
 * Connects to a host and port through a proxy of HTTP CONNECT (`http:` or `https:`, user and password in the URL). The proxy resolves the name:
 * which address it dials is not checked. Rejects where the proxy is not reached or refuses.
 */
export async function dialUpstream(upstream: URL, target: { host: string; port: number }, timeoutMs: number): Promise<Duplex> {
  const isTls = upstream.protocol === 'https:'
  const host = upstream.hostname.replace(/^\[|\]$/g, '')
  const port = upstream.port === '' ? (isTls ? 443 : 80) : Number(upstream.port)
  const to = { host, port, allowHalfOpen: true }
  const socket = isTls ? connectTls(to) : connectTcp(to)
  // Errors reach the reader as the end of the connection.
  let failure: Error | undefined
  socket.on('error', (error) => {
    failure = error
  })
  const authority = `${target.host}:${target.port}`
  const credentials = `${decodeURIComponent(upstream.username)}:${decodeURIComponent(upstream.password)}`
  const authorization = upstream.username === '' ? '' : `Proxy-Authorization: Basic ${Buffer.from(credentials).toString('base64')}\r\n`
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n`)
  try {
    const status = await readHead(socket, parseStatus, { limitMs: timeoutMs })
    if (status >= 200 && status < 300) return socket
    throw new Error(`the proxy of the agent answered ${status}`)
  } catch (error) {
    socket.destroy()
    throw failure ?? error
  }
}

const parseStatus: Parse<number> = (bytes) => {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(bytes.toString('latin1', 0, end))?.[1]
  return { value: Number(status ?? 0), used: end + 4 }
}
