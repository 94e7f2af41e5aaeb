import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { CONNECT_TIMEOUT_MS } from '../../agents/slow-connect.ts'
import type { AgentRecord } from '../../store/store.ts'
import { type Address, AgentConnection } from './agent-connection.ts'
import type { AgentTls } from './agent-tls.ts'
import { DialFailed } from './upstream.ts'

/** Where an agent's dataplane is. */
type Endpoint = {
  address: Address
  /** The value of `Host`. */
  host: string
  basePath: string
  /** Connections that wait for the next request, the most recent last. */
  idle: AgentConnection[]
  /** Nobody asks for its connections any more: none is kept. */
  closed: boolean
}

/** A connection for one request, or for a socket. */
export type Borrowed = {
  connection: AgentConnection
  /** What precedes a path at this agent, and the value of `Host`. */
  endpoint: Pick<Endpoint, 'basePath' | 'host'>
  /** When the answer has come whole, and the agent keeps the connection for `seconds`. */
  giveBack(seconds: number | undefined): void
}

/** Connections to agents. Requests share kept ones; a socket has its own. */
export interface Connections {
  /** A kept one, if there is one. */
  kept(agent: AgentRecord): Borrowed | undefined
  /** A new one. Rejects with `DialFailed`. */
  dial(agent: AgentRecord): Promise<Borrowed>
  close(): void
}

const MAX_IDLE = 256
/** For agents that do not say it; Node closes after five seconds. */
const KEPT_SECONDS = 5
/** So much earlier than the agent, not to meet its closing with a request. */
const KEPT_LESS_MS = 1000

export function createConnections(tls: AgentTls): Connections {
  const endpoints = new BoundedCache<string, Endpoint>(10_000, (endpoint) => {
    endpoint.closed = true
    for (const connection of endpoint.idle.splice(0)) connection.destroy()
  })
  const borrow = (endpoint: Endpoint, connection: AgentConnection): Borrowed => ({
    connection,
    endpoint,
    giveBack: (seconds = KEPT_SECONDS) => {
      connection.reader = undefined
      if (connection.socket.isPaused()) connection.socket.resume()
      connection.idleUntil = performance.now() + seconds * 1000 - KEPT_LESS_MS
      if (endpoint.closed || connection.socket.destroyed || !connection.socket.writable || endpoint.idle.length >= MAX_IDLE)
        connection.destroy()
      else endpoint.idle.push(connection)
    },
  })
  return {
    kept({ dataplaneUrl }) {
      const endpoint = endpoints.getOrMake(dataplaneUrl, parseEndpoint)
      const now = performance.now()
      for (let connection = endpoint.idle.pop(); connection !== undefined; connection = endpoint.idle.pop()) {
        if (connection.idleUntil > now && !connection.socket.destroyed && connection.socket.writable) return borrow(endpoint, connection)
        connection.destroy()
      }
      return undefined
    },
    async dial({ dataplaneUrl }) {
      const endpoint = endpoints.getOrMake(dataplaneUrl, parseEndpoint)
      const connection = new AgentConnection(endpoint.address, tls)
      await connected(connection, endpoint.address.secure)
      connection.socket.once('close', () => {
        const at = endpoint.idle.indexOf(connection)
        if (at !== -1) endpoint.idle.splice(at, 1)
      })
      return borrow(endpoint, connection)
    },
    close() {
      endpoints.clear()
    },
  }
}

function connected(connection: AgentConnection, secure: boolean): Promise<void> {
  const { socket } = connection
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => socket.destroy(new Error('the connection was not made in time')), CONNECT_TIMEOUT_MS)
    let cause: unknown
    const failed = (thrown: unknown): void => {
      cause = thrown
    }
    const gone = (): void => {
      clearTimeout(late)
      reject(new DialFailed('no connection', { cause }))
    }
    socket.once('error', failed).once('close', gone)
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      clearTimeout(late)
      socket.off('error', failed).off('close', gone)
      resolve()
    })
  })
}

/** `unix:/path` or `http(s)://host[:port][/base]`. */
function parseEndpoint(url: string): Endpoint {
  if (url.startsWith('unix:'))
    return { address: { secure: false, options: { path: url.slice(5) } }, host: 'localhost', basePath: '', idle: [], closed: false }
  const { protocol, hostname, port, pathname, host } = new URL(url)
  const secure = protocol === 'https:'
  const options = { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? (secure ? 443 : 80) : Number(port) }
  return { address: { secure, options }, host, basePath: pathname.replace(/\/+$/, ''), idle: [], closed: false }
}
