import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { type Endpoint, parseEndpoint } from '@boxoffice/kit/endpoint'
import { CONNECT_TIMEOUT_MS } from '../../agents/slow-connect.ts'
import type { AgentRecord } from '../../store/store.ts'
import { AgentConnection } from './agent-connection.ts'
import type { AgentTls } from './agent-tls.ts'
import { DialFailed } from './upstream.ts'

/** An agent's dataplane. */
type Dataplane = {
  endpoint: Endpoint
  /** Connections that wait for the next request, the most recent last. */
  idle: AgentConnection[]
  /** Nobody asks for its connections any more: none is kept. */
  closed: boolean
}

/** A connection for one request, or for a socket. */
export type PooledConnection = {
  connection: AgentConnection
  /** What precedes a path at this agent, and the value of `Host`. */
  endpoint: Pick<Endpoint, 'basePath' | 'authority'>
  /** When the response has come whole, and the agent keeps the connection for `seconds`. */
  giveBack(seconds: number | undefined): void
}

/** Connections to agents. Requests share kept ones; a socket has its own. */
export interface Connections {
  /** A kept one, if there is one. */
  kept(agent: AgentRecord): PooledConnection | undefined
  /** A new one. Rejects with `DialFailed`. */
  dial(agent: AgentRecord): Promise<PooledConnection>
  close(): void
}

const MAX_IDLE = 256
/** For agents that do not say it; Node closes after five seconds. */
const KEPT_SECONDS = 5
/** So much earlier than the agent, not to meet its closing with a request. */
const KEPT_LESS_MS = 1000

export function createConnections(tls: AgentTls): Connections {
  const dataplanes = new BoundedCache<string, Dataplane>(10_000, (dataplane) => {
    dataplane.closed = true
    for (const connection of dataplane.idle.splice(0)) connection.destroy()
  })
  const dataplaneAt = (url: string): Dataplane =>
    dataplanes.getOrMake(url, () => ({ endpoint: parseEndpoint(url), idle: [], closed: false }))
  const lend = (dataplane: Dataplane, connection: AgentConnection): PooledConnection => ({
    connection,
    endpoint: dataplane.endpoint,
    giveBack: (seconds = KEPT_SECONDS) => {
      connection.reader = undefined
      if (connection.socket.isPaused()) connection.socket.resume()
      connection.idleUntil = performance.now() + seconds * 1000 - KEPT_LESS_MS
      if (dataplane.closed || connection.socket.destroyed || !connection.socket.writable || dataplane.idle.length >= MAX_IDLE)
        connection.destroy()
      else dataplane.idle.push(connection)
    },
  })
  return {
    kept({ dataplaneUrl }) {
      const dataplane = dataplaneAt(dataplaneUrl)
      const now = performance.now()
      for (let connection = dataplane.idle.pop(); connection !== undefined; connection = dataplane.idle.pop()) {
        if (connection.idleUntil > now && !connection.socket.destroyed && connection.socket.writable) return lend(dataplane, connection)
        connection.destroy()
      }
      return undefined
    },
    async dial({ dataplaneUrl }) {
      const dataplane = dataplaneAt(dataplaneUrl)
      const connection = new AgentConnection(dataplane.endpoint, tls)
      await connected(connection, dataplane.endpoint.secure)
      connection.socket.once('close', () => {
        const at = dataplane.idle.indexOf(connection)
        if (at !== -1) dataplane.idle.splice(at, 1)
      })
      return lend(dataplane, connection)
    },
    close() {
      dataplanes.clear()
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
