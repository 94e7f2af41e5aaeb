import { statSync } from 'node:fs'
import { chmod, readFile, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server, STATUS_CODES } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { BoxofficeError, newRequestId } from '@boxoffice/protocol'

export type Tls = { cert: Buffer; key: Buffer } | undefined

export const readTls = async (cert: string | undefined, key: string | undefined): Promise<Tls> =>
  cert === undefined || key === undefined ? undefined : { cert: await readPem(cert, '--tls-cert'), key: await readPem(key, '--tls-key') }

const readPem = async (path: string, flag: string): Promise<Buffer> => {
  try {
    return await readFile(path)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', `${flag}: ${path} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

export const httpServer = (tls: Tls, listener: RequestListener): Server =>
  (tls === undefined ? createServer(listener) : secureServer(tls, listener)).on('clientError', refuseUnparsed)

const secureServer = (tls: Exclude<Tls, undefined>, listener: RequestListener): Server => {
  try {
    return createSecureServer(tls, listener)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', '--tls-cert, --tls-key: are not a certificate and its key in PEM', { cause })
  }
}

/** What is no HTTP is refused like everything else, with the envelope. */
const refuseUnparsed = (thrown: NodeJS.ErrnoException, socket: Duplex): void => {
  if (thrown.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const late = thrown.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  const message = late ? 'the request did not arrive in time' : 'the request is not valid HTTP, or its headers are too large'
  const error = new BoxofficeError(late ? 'TIMEOUT' : 'INVALID_REQUEST', message)
  const requestId = newRequestId()
  const body = JSON.stringify(error.envelope(requestId))
  const head = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, 'Content-Type: application/json', `X-Request-Id: ${requestId}`]
  socket.end([...head, `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close', '', body].join('\r\n'))
}

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

/** Listens on a unix socket; one that a killed agent has left there goes first. Only who may use the file can connect. */
export const listenOnSocket = async (server: Server, path: string): Promise<string> => {
  if (statSync(path, { throwIfNoEntry: false })?.isSocket() === true && !(await answers(path))) await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException): void =>
      reject(new BoxofficeError('INVALID_REQUEST', `--dataplane-listen: cannot listen on ${path} (${cause.code})`, { cause }))
    server.once('error', failed)
    server.listen(path, () => {
      server.off('error', failed)
      resolve()
    })
  })
  await chmod(path, 0o660)
  return `unix:${path}`
}

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path)
    const done = (there: boolean) => () => {
      socket.destroy()
      resolve(there)
    }
    socket.once('connect', done(true)).once('error', done(false))
  })

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
