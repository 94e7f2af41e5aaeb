import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'

export type Tls = { cert: Buffer; key: Buffer } | undefined

export const readTls = async (cert: string | undefined, key: string | undefined): Promise<Tls> =>
  cert === undefined || key === undefined ? undefined : { cert: await readFile(cert), key: await readFile(key) }

export const httpServer = (tls: Tls, listener: RequestListener): Server =>
  tls === undefined ? createServer(listener) : createSecureServer(tls, listener)

/** Listens and answers with the URL of it; the port is known even when 0 was asked for. */
export const listen = async (server: Server, host: string, port: number, tls: Tls): Promise<string> => {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const address = server.address() as AddressInfo
  return `${tls === undefined ? 'http' : 'https'}://${reachable(host)}:${address.port}`
}

/** An address to listen on everywhere is none to connect to. */
const reachable = (host: string): string => {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** No new work; requests in flight get their time, then the rest is cut. */
export const drain = async (server: Server, withinMs: number): Promise<void> => {
  if (!server.listening) return
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), withinMs)
  await closed
  clearTimeout(cut)
}
