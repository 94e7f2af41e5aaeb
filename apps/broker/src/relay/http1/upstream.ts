import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { type Endpoint, parseEndpoint } from '@boxoffice/kit/endpoint'
import { retry } from '@boxoffice/kit/retry'
import { BoxofficeError } from '@boxoffice/protocol'
import { failSlowConnect } from '../../agents/slow-connect.ts'
import type { AgentRecord } from '../../store/store.ts'
import type { AgentTls } from './agent-tls.ts'

/** The broker's own requests to agents, over kept connections. What it passes for clients goes by `connections.ts`. */
export interface Upstream {
  /** Begins one request and says when it has a connection; nothing of a body may be written before. */
  request(agent: AgentRecord, options: UpstreamRequest): ClientRequest
  close(): void
}

/** `path` is below the agent's base. */
export type UpstreamRequest = Pick<RequestOptions, 'method' | 'path' | 'headers' | 'signal'>

/** Waits before the second and the third dial: a restarting agent is back within them, more often than not. */
const DIAL_AGAIN_MS = [50, 250] as const

/**
 * How long a connection that nobody uses is kept at most, in ms. Only a pool with such a limit minds the shorter one that an agent tells
 * (`Keep-Alive: timeout`); without it a request may go by a connection that the agent closes at that moment.
 */
const KEPT_MS = 60_000

export function createUpstream(tls: AgentTls): Upstream {
  const kept = { keepAlive: true, timeout: KEPT_MS }
  const pools = { http: new HttpAgent({ ...kept, maxFreeSockets: 256 }), https: new HttpsAgent({ ...kept, ...tls }) }
  const endpoints = new BoundedCache<string, Endpoint>(10_000)
  return {
    request(agent, { path = '', ...rest }) {
      const { secure, basePath, address } = endpoints.getOrMake(agent.dataplaneUrl, parseEndpoint)
      const pool = secure ? pools.https : pools.http
      const send = secure ? httpsRequest : httpRequest
      const request = send({ ...address, ...rest, path: basePath + path, agent: pool })
      failSlowConnect(request)
      return request
    },
    close() {
      pools.http.destroy()
      pools.https.destroy()
    },
  }
}

/** No connection was made, so nothing was sent: the one failure that may be tried again. */
export class DialFailed extends Error {}

/** Tries again after `DialFailed`, and only then, until the client is gone; the last failure is `BACKEND_UNAVAILABLE`. */
export async function dialing<T>(attempt: () => Promise<T>, client: { readonly aborted: boolean }): Promise<T> {
  let dialled = false
  const dial = (): Promise<T> => {
    if (dialled && client.aborted) throw new DialFailed('the client is gone')
    dialled = true
    return attempt()
  }
  try {
    return await retry(dial, {
      waitMs: (thrown, failures) => (thrown instanceof DialFailed && !client.aborted ? DIAL_AGAIN_MS[failures - 1] : undefined),
    })
  } catch (thrown) {
    throw thrown instanceof DialFailed ? unreachable(thrown) : thrown
  }
}

const unreachable = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session cannot be reached; try again', { retryAfter: 2, cause })
