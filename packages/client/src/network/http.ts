import { ErrorEnvelope } from '@boxoffice/protocol'
import type { z } from 'zod'
import { BoxofficeError, ConnectionError, errorFromWire, SilenceError } from '../base/errors.ts'
import { BodyReader, limitSilence } from './body-reader.ts'
import { StreamBody } from './stream-body.ts'

export type Fetch = typeof globalThis.fetch

/** `BodyInit`, which the types of Node do not name. */
export type HttpBody = NonNullable<RequestInit['body']>

export type HttpRequest = {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
  headers?: Record<string, string> | undefined
  /** Sent as JSON; excludes `body`. */
  json?: unknown
  body?: HttpBody | StreamBody | undefined
  signal?: AbortSignal | undefined
  /** How long the body of the response may be silent while it is read; for ever without it. */
  bodySilentMs?: number | undefined
}

/**
 * One request. Resolves with a successful response; rejects with `BoxofficeError` for a refusal, `ConnectionError` when
 * nobody answers, and the signal's own reason when it was aborted.
 */
export const send = async (fetch: Fetch, url: string, request: HttpRequest): Promise<Response> => {
  const { method = 'GET', json, signal, bodySilentMs } = request
  const headers = { ...request.headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) }
  let response: Response
  try {
    const body = request.body instanceof StreamBody ? await request.body.open(signal) : request.body
    response = await fetch(url, {
      method,
      headers,
      // Redirects would carry the credential to wherever an answer points.
      redirect: 'error',
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(body === undefined ? {} : { body, ...(body instanceof ReadableStream ? { duplex: 'half' } : {}) }),
      ...(signal === undefined ? {} : { signal }),
    } as RequestInit)
  } catch (error) {
    throw failed(url, error, signal)
  }
  if (bodySilentMs !== undefined) limitSilence(response, bodySilentMs)
  if (!response.ok) throw await refused(url, response, signal)
  return response
}

/** Reads a JSON body by its schema; `onBytes` is told whenever some of it has come. */
export const readJson = async <T>(response: Response, schema: z.ZodType<T>, signal?: AbortSignal, onBytes?: () => void): Promise<T> => {
  const text = await readText(response, signal, onBytes)
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw new BoxofficeError('INVALID_RESPONSE', `${new URL(response.url).pathname} gave an answer that is not in the contract`, {
      status: response.status,
      cause: error,
    })
  }
}

/** Reads a body of bytes to its end. */
export const readBytes = async (response: Response, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> => {
  const length = Number(response.headers.get('content-length') ?? 0)
  const parts: Uint8Array<ArrayBuffer>[] = []
  let received = 0
  await eachPart(response, signal, (part) => {
    parts.push(part)
    received += part.length
  })
  const [first] = parts
  if (parts.length === 1 && first?.length === length) return first
  const whole = new Uint8Array(received)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

const readText = async (response: Response, signal?: AbortSignal, onBytes?: () => void): Promise<string> => {
  // Empty, or of a `fetch` that gives text only, as that of short commands.
  if (response.body === null) return await response.text()
  const decoder = new TextDecoder()
  let text = ''
  await eachPart(response, signal, (part) => {
    onBytes?.()
    text += decoder.decode(part, { stream: true })
  })
  return text + decoder.decode()
}

const eachPart = async (
  response: Response,
  signal: AbortSignal | undefined,
  take: (part: Uint8Array<ArrayBuffer>) => void,
): Promise<void> => {
  const reader = new BodyReader(response)
  try {
    for (let part = await reader.read(); part !== undefined; part = await reader.read()) take(part)
  } catch (error) {
    throw failed(response.url, error, signal)
  }
}

/** What a failed transfer means: the caller's own abort, or a connection that is gone. */
export const failed = (url: string, error: unknown, signal?: AbortSignal): unknown => {
  if (signal?.aborted) return signal.reason
  if (error instanceof SilenceError) return error
  const { origin } = new URL(url)
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } }
  const why = cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error))
  return new ConnectionError(`${origin} cannot be reached (${String(why)})`, error)
}

const refused = async (url: string, response: Response, signal?: AbortSignal): Promise<BoxofficeError> => {
  const text = await readText(response, signal).catch(() => '')
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const retryAfter = Number.isFinite(seconds) ? seconds : undefined
  const envelope = ErrorEnvelope.safeParse(parseOrUndefined(text))
  if (envelope.success) return errorFromWire(envelope.data.error, { status: response.status, retryAfter })
  return new BoxofficeError(
    'INVALID_RESPONSE',
    `${new URL(url).origin} answered ${response.status} without a Boxoffice error; is this the right URL?`,
    {
      status: response.status,
      retryable: response.status === 429 || response.status === 503,
      requestId: response.headers.get('x-request-id') ?? undefined,
      retryAfter,
    },
  )
}

const parseOrUndefined = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
