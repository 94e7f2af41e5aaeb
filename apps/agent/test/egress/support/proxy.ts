import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { EgressPolicy } from '@boxoffice/protocol'
import { afterEach } from 'vitest'
import { dialTcp } from '../../../src/egress/address/dial-addresses.ts'
import type { EgressDecision } from '../../../src/egress/egress-types.ts'
import { forwardHttp } from '../../../src/egress/http/forward-http.ts'
import { createEgressProxy, type EgressProxy, type EgressProxyOptions } from '../../../src/egress/proxy/create-egress-proxy.ts'
import { createTlsOpener } from '../../../src/egress/tls/open-tls.ts'
import { createSandboxCa } from '../../../src/egress/tls/sandbox-ca.ts'
import { tcp } from '../../support/listening.ts'
import { selfSigned } from './certificates.ts'

type Policy = Parameters<typeof EgressPolicy.parse>[0]

/** Of every name of a test, unless it says otherwise. */
export const PUBLIC_ADDRESS = '93.184.215.14'

/** What origins of a test show, and what the proxy shows where it opens TLS. */
export const ORIGIN_CERTIFICATE = selfSigned('origin.example', 'other.example')
const AUTHORITIES = [ORIGIN_CERTIFICATE.cert]
const CA = await createSandboxCa('sb_test')
export const PROXY_CERTIFICATE = { cert: CA.certificate }

export type TestProxy = {
  proxy: EgressProxy
  port: number
  url: string
  decisions: EgressDecision[]
  /** Addresses with ports that were dialled. */
  dialled: string[]
  setPolicy: (policy: Policy) => void
  /** A connection to the proxy. */
  connect: () => Promise<Socket>
}

type More = Omit<Partial<EgressProxyOptions>, 'policy'> & {
  /** Where ports of public addresses are on this host. */
  ports?: Readonly<Record<number, number>>
}

/** For the top of a file: starts proxies that end with their test. */
export const proxies = (): ((policy: Policy, more?: More) => Promise<TestProxy>) => {
  const stop: (() => Promise<void>)[] = []
  afterEach(async () => {
    for (const end of stop.splice(0)) await end()
  })
  return async (policy, { ports = {}, ...more } = {}) => {
    const decisions: EgressDecision[] = []
    const dialled: string[] = []
    const proxy = createEgressProxy({
      ...{ policy: EgressPolicy.parse(policy), secrets: () => undefined, sentinelOf: (env) => `for-${env}`, forwardHttp },
      openTls: createTlsOpener({ ca: CA, forwardHttp, authorities: AUTHORITIES }),
      onDecision: (decision) => void decisions.push(decision),
      resolve: async () => [PUBLIC_ADDRESS],
      dial: ({ address, port }, signal) => {
        dialled.push(`${address}:${port}`)
        return dialTcp({ address: '127.0.0.1', port: ports[port] ?? 1 }, signal)
      },
      ...more,
    })
    const listener = await tcp((socket) => proxy.accept(socket))
    const clients: Socket[] = []
    stop.push(async () => {
      for (const client of clients) client.destroy()
      proxy.close()
      await listener[Symbol.asyncDispose]()
    })
    return {
      ...{ proxy, decisions, dialled, port: listener.port, url: `http://127.0.0.1:${listener.port}` },
      setPolicy: (next) => proxy.setPolicy(EgressPolicy.parse(next)),
      connect: async () => {
        const socket = connect({ port: listener.port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
        clients.push(socket)
        await once(socket, 'connect')
        return socket
      },
    }
  }
}

/** Resolves when a connection is over, broken off or not. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => void (socket.closed ? resolve() : socket.resume().once('close', () => resolve())))

/** All that comes until the end, or until the connection breaks. */
export const readAll = async (socket: Socket): Promise<Buffer> => {
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  if (!socket.closed && !socket.readableEnded)
    await new Promise<void>((resolve) => void socket.once('end', resolve).once('close', () => resolve()))
  return Buffer.concat(pieces)
}

/** What comes until a number of bytes is there, or a text; what comes after it stays. */
export const readUntil = async (socket: Socket, wanted: number | string): Promise<Buffer> => {
  let bytes = Buffer.alloc(0)
  for (;;) {
    const at =
      typeof wanted === 'number'
        ? bytes.length >= wanted
          ? wanted
          : -1
        : bytes.indexOf(wanted) + (bytes.includes(wanted) ? wanted.length : 0)
    if (at > 0 || (at === 0 && typeof wanted === 'number')) {
      if (bytes.length > at) socket.unshift(bytes.subarray(at))
      return bytes.subarray(0, at)
    }
    const piece = socket.read() as Buffer | null
    if (piece !== null) bytes = Buffer.concat([bytes, piece])
    else if (socket.readableEnded || socket.destroyed) throw new Error(`ended after ${JSON.stringify(bytes.toString())}`)
    else
      await new Promise<void>((resolve) => {
        const next = (): void => {
          socket.off('readable', next).off('close', next).off('end', next)
          resolve()
        }
        socket.on('readable', next).on('close', next).on('end', next)
      })
  }
}

/** Sends CONNECT and gives the head of the answer. */
export const sendConnect = async (socket: Socket, authority: string): Promise<string> => {
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  return (await readUntil(socket, '\r\n\r\n')).toString()
}
