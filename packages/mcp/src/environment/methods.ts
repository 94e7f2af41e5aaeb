import {
  BoxofficeError,
  describeIssues,
  HeartbeatResponse,
  MvpNegotiateResponse,
  NegotiateRequest,
  RefreshRequest,
  RefreshResponse,
} from '@boxoffice/protocol'
import type { ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Broker, BrokerRequest } from '../base/broker.ts'

/** What HTTP says in the head of a request has its place in the params here. */
const InTheHead = z.object({
  idempotency_key: z.string().min(1).max(255).optional().describe('Repeating a request with its key gives the same session (mode ensure)'),
  wait_seconds: z
    .number()
    .int()
    .min(0)
    .max(60)
    .optional()
    .describe('How long to wait for a sandbox that starts; default 10, then SANDBOX_STARTING'),
})

const OfSession = z.object({ session_id: z.string().min(1).max(128) })

export const AcquireParams = NegotiateRequest.safeExtend(InTheHead.shape)
export const RefreshParams = RefreshRequest.extend(OfSession.shape)
export const HeartbeatParams = OfSession
export const ReleaseParams = OfSession.extend({ keep_workspace: z.boolean().optional() })

const session = (id: string): string => `/v1/sandbox/sessions/${encodeURIComponent(id)}`

/** One JSON-RPC method: its params, the route that it is, and what that responses. */
export type Method<P extends object, R extends object> = {
  name: string
  params: z.ZodType<P>
  /** `body` are the params as they came: fields that only a newer broker knows go on to it. */
  request: (params: P, body: Record<string, unknown>) => BrokerRequest
  result: z.ZodType<R>
}

const method = <P extends object, R extends object>(definition: Method<P, R>): Method<P, R> => definition

export const acquire = method({
  name: 'environment/acquire',
  params: AcquireParams,
  request: ({ idempotency_key, wait_seconds }, { idempotency_key: _key, wait_seconds: _wait, ...json }) => ({
    method: 'POST',
    path: '/v1/sandbox/sessions',
    headers: {
      ...(idempotency_key === undefined ? {} : { 'idempotency-key': idempotency_key }),
      ...(wait_seconds === undefined ? {} : { prefer: `wait=${wait_seconds}` }),
    },
    json,
  }),
  result: MvpNegotiateResponse.loose(),
})

export const refresh = method({
  name: 'environment/refresh',
  params: RefreshParams,
  request: ({ session_id }, { session_id: _id, ...json }) => ({ method: 'POST', path: `${session(session_id)}/refresh`, json }),
  result: RefreshResponse.loose(),
})

export const heartbeat = method({
  name: 'environment/heartbeat',
  params: HeartbeatParams,
  request: ({ session_id }, { session_id: _id, ...json }) => ({ method: 'POST', path: `${session(session_id)}/heartbeat`, json }),
  result: HeartbeatResponse.loose(),
})

export const release = method({
  name: 'environment/release',
  params: ReleaseParams,
  request: ({ session_id, keep_workspace }) => ({
    method: 'DELETE',
    path: `${session(session_id)}${keep_workspace ? '?keep_workspace=true' : ''}`,
  }),
  result: z.object({}),
})

/** Checks the params and asks the broker. */
export const perform = async <P extends object, R extends object>(
  { params, request, result }: Method<P, R>,
  body: Record<string, unknown>,
  broker: Broker,
  context: ServerContext,
): Promise<R> => {
  const parsed = params.safeParse(body)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
  return await broker.call(request(parsed.data, body), result, context)
}
