import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect, createSecureContext, getCACertificates, type SecureContext, TLSSocket } from 'node:tls'
import type { ForwardHttp, OpenTls } from '../egress-types.ts'
import type { SandboxCa } from './sandbox-ca.ts'

export type TlsOpenerOptions = {
  ca: SandboxCa
  forwardHttp: ForwardHttp
  /** PEM certificates of authorities that origins may have, beside those of the system and of Node. */
  authorities?: readonly string[]
}

/** No h2: requests are read one by one. A client that speaks nothing else is refused by TLS itself. */
const PROTOCOLS = Buffer.from('\x08http/1.1', 'latin1')
const HANDSHAKE_MS = 10_000
const NONE: readonly string[] = []

/** Opens the TLS of a connection with a certificate of the sandbox's authority, and begins TLS of its own to the origin. */
export const createTlsOpener = ({ ca, forwardHttp, authorities = NONE }: TlsOpenerOptions): OpenTls => {
  return ({ connection, host, port, gate, dial, onDecision }) => {
    const name = host.replace(/^\[|\]$/g, '')
    let inner: { destroy(): void } | undefined
    const serve = async (): Promise<void> => {
      const secureContext = await ca.contextFor(name)
      if (connection.destroyed) return
      const client = new TLSSocket(connection as never, { isServer: true, secureContext, ALPNProtocols: PROTOCOLS as never })
      client.on('error', () => {})
      client.once('close', () => connection.destroy())
      const late = setTimeout(() => connection.destroy(), HANDSHAKE_MS).unref()
      client.once('secure', () => clearTimeout(late))
      connection.once('close', () => clearTimeout(late))
      const toOrigin = async (): Promise<Duplex> => secure(await dial(), name, trusted(authorities))
      inner = forwardHttp({ connection: client, scheme: 'https', host, port, gate, dial: toOrigin, onDecision })
    }
    serve().catch(() => connection.destroy())
    return {
      destroy() {
        inner?.destroy()
        connection.destroy()
      },
    }
  }
}

/** TLS to an origin, which has to show a certificate for its name. */
const secure = (origin: Duplex, name: string, secureContext: SecureContext): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const options = { socket: origin, host: name, secureContext, ALPNProtocols: ['http/1.1'] }
    const socket = connect({ ...options, ...(isIP(name) === 0 ? { servername: name } : {}) })
    const late = setTimeout(() => socket.destroy(new Error('the handshake took too long')), HANDSHAKE_MS).unref()
    socket.once('secureConnect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () => {
      clearTimeout(late)
      origin.destroy()
      reject(new Error('the origin broke off'))
    })
    socket.once('secureConnect', () => clearTimeout(late))
  })

/** Reading all authorities takes 10 ms and more: once for all sandboxes. */
let known: { authorities: readonly string[]; context: SecureContext } | undefined

const trusted = (authorities: readonly string[]): SecureContext => {
  if (known?.authorities !== authorities)
    known = { authorities, context: createSecureContext({ ca: [...systemAuthorities(), ...authorities], minVersion: 'TLSv1.2' }) }
  return known.context
}

/** PEM certificates of the authorities that this machine and Node trust. */
export const systemAuthorities = (): string[] => [...new Set([...getCACertificates('default'), ...getCACertificates('system')])]
