import type { ErrorNaming } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { Principal } from '../access/principals.ts'
import type { Origin } from '../domain/audit-entry.ts'

/** Who may call a route. */
export type Auth =
  | 'none'
  /** Whoever has an API key, or a token of the identity provider. */
  | 'key'
  | 'operator'
  /** Whoever holds the enroll token. */
  | 'enroll'
  /** An agent, with the token that it got when it registered. */
  | 'agent'
  /** A caller on this machine, or an operator. */
  | 'loopback'

/** A request after authentication and validation. */
export type Call<A extends Auth, Body, Query> = {
  principal: A extends 'key' | 'operator' ? Principal : null
  /** The presented credential on `enroll` and `agent` routes, which check it themselves; else empty. */
  credential: string
  body: Body
  /** The JSON as it came, for hashing. */
  rawBody: unknown
  query: Query
  /** The `:id` of the path. */
  id: string
  /** Another parameter of the path. */
  param(name: string): string
  header(name: string): string | undefined
  /** Who the caller is now, for responses that last; throws when its credential is valid no more. */
  reauthenticate(): Promise<A extends 'key' | 'operator' ? Principal : null>
  origin: Origin
}

/** Of `json`, `text` and `stream` at most one; none: no body. `stream` is called unless only the headers are wanted. */
export type RouteResponse = {
  status: number
  json?: unknown
  text?: string
  stream?: (drop: () => void) => ReadableStream<Uint8Array>
  headers?: Record<string, string>
}

export type ResponseSpec = { description: string; schema?: z.ZodType; contentType?: string }

export type Route<A extends Auth = Auth, Body = unknown, Query = unknown> = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Its parameters as `:id`, which comes first, and `:name`. */
  path: string
  summary: string
  auth: A
  body?: z.ZodType<Body>
  /** How long the JSON of the body may be, in bytes; by default what holds for all routes. */
  bodyBytes?: number
  query?: z.ZodObject & z.ZodType<Query>
  /** Successful answers; refusals are the same everywhere. */
  responses: Record<number, ResponseSpec>
  /** Checks the credential of an `enroll` or `agent` route before the body is looked at [C-19]; throws the refusal. */
  admit?(credential: string, id: string): Promise<void> | void
  /** Request headers worth documenting. */
  headers?: Record<string, string>
  /** Which of its two names an error shows here [C-45]; by default the full one. */
  naming?: ErrorNaming | ((body: unknown) => ErrorNaming)
  handle(call: Call<A, Body, Query>): Promise<RouteResponse> | RouteResponse
}

/** A route whose types have been checked and are needed no more. */
export type AnyRoute = Route<Auth, unknown, unknown>

export const defineRoute = <A extends Auth, Body = undefined, Query = undefined>(route: Route<A, Body, Query>): AnyRoute =>
  route as unknown as AnyRoute
