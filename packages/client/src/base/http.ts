import { ErrorEnvelope } from '@boxoffice/protocol'
import type { z } from 'zod'
import { BoxofficeError, ConnectionError, errorFromWire } from './errors.ts'

export type Fetch = typeof globalThis.fetch

export type HttpRequest = {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
  headers?: Record<string, string> | undefined
  /** Sent as JSON; excludes `body`. */
  json?: unknown
  body?: BodyInit | undefined
  signal?: AbortSignal | undefined
}

/**
 * One request. Resolves with a successful response; rejects with `BoxofficeError` for a refusal, `ConnectionError` when
 * nobody answers, and the signal's own reason when it was aborted.
 */
export const send = async (fetch: Fetch, url: string, request: HttpRequest): Promise<Response> => {
  const { method = 'GET', json, body, signal } = request
  const headers = { ...request.headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) }
  let response: Response
  try {
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
  try {
    return new Uint8Array(await response.arrayBuffer())
  } catch (error) {
    throw failed(response.url, error, signal)
  }
}

const readText = async (response: Response, signal?: AbortSignal, onBytes?: () => void): Promise<string> => {
  try {
    return onBytes === undefined || response.body === null ? await response.text() : await textOf(response.body, onBytes)
  } catch (error) {
    throw failed(response.url, error, signal)
  }
}

const textOf = async (body: ReadableStream<Uint8Array>, onBytes: () => void): Promise<string> => {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    onBytes()
    text += decoder.decode(value, { stream: true })
  }
}

/** What a failed transfer means: the caller's own abort, or a connection that is gone. */
export const failed = (url: string, error: unknown, signal?: AbortSignal): unknown => {
  if (signal?.aborted) return signal.reason
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
