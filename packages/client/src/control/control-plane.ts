import { httpBase } from '@boxoffice/kit/http-base'
import type { z } from 'zod'
import { BoxofficeError } from '../base/errors.ts'
import { anySignal } from '../base/signals.ts'
import { retrying } from '../network/backoff.ts'
import { type Fetch, type HttpRequest, readJson, send } from '../network/http.ts'
import { whileAlive } from '../network/liveness.ts'

/** An API key, or the bearer token of an identity provider (a function is asked for each request). */
export type ServerCredential = { apiKey: string } | { token: string | (() => string | Promise<string>) }

/** How long a broker that does not answer is tried. Short: whoever asks first wants to hear of a wrong URL soon. */
const BROKER_WINDOW_MS = 1_000

/** The broker, as the parts of the SDK see it: authenticated requests that may be repeated. */
export type ControlPlane = {
  readonly url: string
  /** Answers with the body, checked by its schema. */
  json<T>(path: string, request: HttpRequest, schema: z.ZodType<T>): Promise<T>
  /** For routes that answer 204. */
  done(path: string, request: HttpRequest): Promise<void>
  /** For answers that last: the response as it comes, tried once. */
  open(path: string, request: HttpRequest): Promise<Response>
}

export type ControlPlaneOptions = {
  url: string
  credential: ServerCredential
  fetch: Fetch
  requestTimeoutMs: number
  signal: AbortSignal | undefined
}

export const createControlPlane = ({ url, credential, fetch, requestTimeoutMs, signal: life }: ControlPlaneOptions): ControlPlane => {
  const base = baseUrl(url)
  if (!('token' in credential)) checked(credential.apiKey, 'apiKey')

  /** Not CORS: an answer that a page may not read is an answer as well. */
  const ask = async (signal: AbortSignal): Promise<void> => {
    await (await fetch(`${base}/healthz`, { signal, mode: 'no-cors' })).body?.cancel()
  }

  const attempt = (path: string, request: HttpRequest, caller: AbortSignal | undefined) =>
    whileAlive(
      async (signal) =>
        await send(fetch, base + path, {
          bodySilentMs: 2 * requestTimeoutMs,
          ...request,
          headers: { ...request.headers, authorization: `Bearer ${await secretOf(credential)}` },
          signal,
        }),
      { ask, silentMs: requestTimeoutMs, signal: caller },
    )

  return {
    url: base,
    async json(path, request, schema) {
      const signal = anySignal(request.signal, life)
      return await retrying(async () => await readJson(await attempt(path, request, signal), schema, signal), {
        windowMs: BROKER_WINDOW_MS,
        after: ['CONNECTION_FAILED'],
        signal,
      })
    },
    async done(path, request) {
      const signal = anySignal(request.signal, life)
      const response = await retrying(() => attempt(path, request, signal), {
        windowMs: BROKER_WINDOW_MS,
        after: ['CONNECTION_FAILED'],
        signal,
      })
      await response.body?.cancel()
    },
    open: (path, request) => attempt(path, request, anySignal(request.signal, life)),
  }
}

const baseUrl = (url: string): string => {
  const base = httpBase(url)
  if (base === undefined) {
    throw new BoxofficeError('INVALID_REQUEST', `brokerUrl: ${JSON.stringify(url)} is not an http(s) URL; use e.g. http://127.0.0.1:7070`)
  }
  return base
}

const secretOf = async (credential: ServerCredential): Promise<string> => {
  if (!('token' in credential)) return checked(credential.apiKey, 'apiKey')
  return checked(typeof credential.token === 'function' ? await credential.token() : credential.token, 'token')
}

/** What no header can carry is refused here: the runtime's own error would show the secret. An unset variable is the usual case. */
const checked = (secret: string | null | undefined, name: 'apiKey' | 'token'): string => {
  if (secret === undefined || secret === null || secret === '') {
    const hint = name === 'apiKey' ? '; is the variable that it comes from set, as BOXOFFICE_API_KEY?' : ''
    throw new BoxofficeError('INVALID_REQUEST', `${name}: is missing (${secret === '' ? 'empty' : String(secret)})${hint}`)
  }
  if (/^[\x21-\x7e]+$/.test(secret)) return secret
  throw new BoxofficeError('INVALID_REQUEST', `${name}: must be printable ASCII without white space; check how it was copied`)
}
