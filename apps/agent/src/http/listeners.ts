import { statSync } from 'node:fs'
import { chmod, readFile, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { localUrl } from '@boxoffice/kit/listen-address'
import { drainable, limitConnections, refuseInEnvelope, requireHost, SERVER_OPTIONS } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { AgentConfig } from '../config/config.ts'

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

/** How long requests in flight may take after the listener has closed [contract 2.14]. */
const DRAIN_MS = 10_000

/** A server, and what ends it: no new work, requests in flight get their time, then the rest is cut. */
export const httpServer = (
  tls: Tls,
  listener: RequestListener,
  { trustedProxies, maxConnections }: Pick<AgentConfig, 'trustedProxies' | 'maxConnections'>,
): { server: Server; drain: () => Promise<void> } => {
  const hosted = requireHost(listener)
  const server = tls === undefined ? createServer(SERVER_OPTIONS, hosted) : secureServer(tls, hosted)
  refuseInEnvelope(server)
  limitConnections(server, { trustedProxies, total: maxConnections })
  return { server, drain: drainable(server, tls === undefined ? 'connection' : 'secureConnection', DRAIN_MS) }
}

const secureServer = (tls: Exclude<Tls, undefined>, listener: RequestListener): Server => {
  try {
    return createSecureServer({ ...SERVER_OPTIONS, ...tls }, listener)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', '--tls-cert, --tls-key: are not a certificate and its key in PEM', { cause })
  }
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
  const bound = server.address() as AddressInfo
  return localUrl({ host, port: bound.port }, tls !== undefined)
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
