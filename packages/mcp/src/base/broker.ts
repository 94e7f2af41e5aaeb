import { httpBase } from '@boxoffice/kit/http-base'
import { BoxofficeError, ErrorEnvelope } from '@boxoffice/protocol'
import type { ServerContext } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import { BrokerRefusal } from './errors.ts'

export type BrokerOptions = {
  brokerUrl: string
  /**
   * The server credential (API key or OIDC token) with which a request goes to the broker. It decides which threads the caller may
   * use, so it must be the caller's own: on stdio, where the one who started the process is the only caller, a key from the
   * environment will do; over HTTP take what belongs to the authenticated caller, from `context.http.authInfo`. One key for
   * many callers opens every thread of that key to each of them. A token that was issued to this MCP server and not for the
   * broker must be exchanged, not passed on.
   */
  credential: (context: ServerContext) => string | Promise<string>
  /** Default: the runtime's own. */
  fetch?: typeof globalThis.fetch | undefined
}

export type BrokerRequest = { method: 'POST' | 'DELETE'; path: string; headers?: Record<string, string>; json?: unknown }

/** Without a slash at its end. Throws INVALID_REQUEST for what is no URL of a broker. */
export const brokerBase = (brokerUrl: string): string => {
  const base = httpBase(brokerUrl)
  if (base === undefined) throw new BoxofficeError('INVALID_REQUEST', 'brokerUrl: is not an http(s) URL; use e.g. http://127.0.0.1:7070')
  return base
}

/** The broker's session routes, with the credential of whoever calls. */
export class Broker {
  readonly #base: string
  readonly #options: BrokerOptions

  constructor(options: BrokerOptions) {
    this.#base = brokerBase(options.brokerUrl)
    this.#options = options
  }

  /** The response's body as it came, once `schema` accepts it; `{}` for 204. Rejects with the refusal as a JSON-RPC error. */
  async call<T extends object>(request: BrokerRequest, schema: z.ZodType<T>, context: ServerContext): Promise<T> {
    const response = await this.#send(request, context)
    if (!response.ok) throw await this.#refused(response)
    const body = response.status === 204 ? {} : await response.json().catch(() => undefined)
    if (schema.safeParse(body).success) return body as T
    throw new BoxofficeError('INTERNAL', `the broker's answer to ${request.method} ${request.path} is not in the contract`)
  }

  async #send({ method, path, headers, json }: BrokerRequest, context: ServerContext): Promise<Response> {
    const { credential, fetch = globalThis.fetch } = this.#options
    const authorization = `Bearer ${checked(await credential(context))}`
    const { signal } = context.mcpReq
    try {
      return await fetch(this.#base + path, {
        method,
        // Redirects would carry the credential to wherever a response points.
        redirect: 'error',
        headers: { ...headers, authorization, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
        signal,
      })
    } catch (cause) {
      if (signal.aborted) throw signal.reason
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker cannot be reached from this MCP server', { retryAfter: 2, cause })
    }
  }

  async #refused(response: Response): Promise<Error> {
    const { status } = response
    const envelope = ErrorEnvelope.safeParse(await response.json().catch(() => undefined))
    const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
    if (envelope.success) return new BrokerRefusal(envelope.data, status, Number.isFinite(retryAfter) ? retryAfter : undefined)
    return new BoxofficeError('BACKEND_UNAVAILABLE', `brokerUrl answered ${status} without a Boxoffice error; is it the broker's URL?`)
  }
}

/** What no header can carry is refused here: the runtime's own error would show the secret. */
const checked = (credential: string): string => {
  if (credential === '') throw new BoxofficeError('UNAUTHENTICATED', 'this MCP server has no broker credential for the caller')
  if (/^[\x21-\x7e]+$/.test(credential)) return credential
  throw new BoxofficeError('UNAUTHENTICATED', 'the broker credential of this caller is not printable ASCII; check how it was copied')
}
