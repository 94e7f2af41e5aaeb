import { parseEndpoint } from '@boxoffice/kit/endpoint'
import { retry } from '@boxoffice/kit/retry'
import { BoxofficeError, errorCodeFrom, newRequestId } from '@boxoffice/protocol'
import { type RawData, WebSocket } from 'ws'
import type { z } from 'zod'
import { sandboxPath } from '../agents/endpoint.ts'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import { refusalOf } from '../relay/ws/agent-websocket.ts'
import { type Access, RENEW_BEFORE_MS } from './access.ts'

/** How long a lost connection is mended for: an agent restarts within. */
const MEND_WITHIN_MS = 30_000
const MEND_AGAIN_MS = [50, 200, 500, 1000]
export const SOCKET_CLOSE = { done: 1000, goingAway: 1001, lost: 1006 } as const

export type DialOptions = {
  /** Below the sandbox, with its query: `/exec/ws`. */
  path: string
  protocol: string
  maxPayload: number
  agentTls: AgentTls | undefined
  /** The agent has refused, or cannot be reached. */
  refused: (error: BoxofficeError) => void
}

/** Opens a WebSocket to the agent of a session, with the token of the access. */
export function dialAgent(
  { session, agent, token, refused: tokenRefused }: Access,
  { path, protocol, maxPayload, agentTls, refused }: DialOptions,
): WebSocket {
  const ws = new WebSocket(urlOf(agent.dataplaneUrl, sandboxPath(session.sandboxId, path.slice(1), '')), [protocol], {
    headers: { authorization: `Bearer ${token}`, 'x-request-id': newRequestId() },
    ...agentTls,
    perMessageDeflate: false,
    followRedirects: false,
    maxPayload,
    handshakeTimeout: 10_000,
  })
  ws.on('unexpected-response', (_request, response) => {
    if (response.statusCode === 401) tokenRefused()
    void refusalOf(response).then(refused)
  })
  ws.on('error', (cause) => refused(unreachable(cause)))
  return ws
}

/** A frame of an agent's. What is no JSON ends the connection; undefined for that, and for a frame that is not known. */
export function readFrame<T>(ws: WebSocket, schema: z.ZodType<T>, data: RawData): T | undefined {
  let value: unknown
  try {
    value = JSON.parse(String(data))
  } catch {
    return void ws.terminate()
  }
  return schema.safeParse(value).data
}

/** Connects again until it succeeds, the error is a final one, or an agent that restarts would be back. Does nothing once `isClosed`. */
export async function mend(connect: () => Promise<void>, isClosed: () => boolean): Promise<void> {
  const until = performance.now() + MEND_WITHIN_MS
  const attempt = async (): Promise<void> => {
    if (!isClosed()) await connect()
  }
  await retry(attempt, {
    waitMs: (thrown, failures) => {
      const isFinal = thrown instanceof BoxofficeError && (thrown.code === 'PROCESS_NOT_RUNNING' || !thrown.retryable)
      if (isClosed() || isFinal || performance.now() > until) return undefined
      return MEND_AGAIN_MS[Math.min(failures, MEND_AGAIN_MS.length) - 1]
    },
  })
}

/** Brings another token before the present one ends, at `expiresAt` of the monotonic clock; not for a session that has ended. */
export function renewLater(
  { access, monotonic }: { access: () => Promise<Access>; monotonic: () => number },
  expiresAt: number,
  renewed: (access: Access) => void,
): NodeJS.Timeout {
  const wait = Math.max(1000, expiresAt - RENEW_BEFORE_MS - monotonic())
  // The session has ended, or the actor may use it no more; the agent closes the socket with the reason.
  const timer = setTimeout(() => void access().then(renewed, () => {}), wait)
  return timer.unref()
}

export const unreachable = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the connection to the process was lost; attach again', { retryAfter: 1, cause })

export const errorOf = (thrown: unknown): BoxofficeError => (thrown instanceof BoxofficeError ? thrown : unreachable(thrown))

/** The error that a frame of an agent's has. */
export function frameError({
  code,
  message,
  details,
}: {
  code: string
  message: string
  details?: Record<string, unknown> | undefined
}): BoxofficeError {
  return new BoxofficeError(errorCodeFrom(code) ?? 'BACKEND_UNAVAILABLE', message, details === undefined ? {} : { details })
}

/** The URL of a path at an agent, as `ws` wants it. */
function urlOf(dataplaneUrl: string, path: string): string {
  const { secure, address, authority, basePath } = parseEndpoint(dataplaneUrl)
  return 'socketPath' in address ? `ws+unix:${address.socketPath}:${path}` : `${secure ? 'wss' : 'ws'}://${authority}${basePath}${path}`
}
