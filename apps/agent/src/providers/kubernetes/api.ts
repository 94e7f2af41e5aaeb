import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent, request } from 'node:https'
import { backoffMs } from '@boxoffice/kit/backoff'
import { retry } from '@boxoffice/kit/retry'
import type { Access } from './access.ts'
import { jsonLines } from './json-lines.ts'

/** What an API server refused a call with. */
export class ApiError extends Error {
  /** The HTTP status. */
  readonly status: number
  /** Kubernetes' own word, as `AlreadyExists`. */
  readonly reason: string
  /** The fields that it did not like. */
  readonly fields: readonly string[]
  readonly retryAfterMs: number | undefined

  constructor(status: number, { reason = '', message = '', details }: Status, retryAfterMs?: number) {
    super(`${status} ${reason}: ${message}`.slice(0, 2000))
    this.status = status
    this.reason = reason
    this.fields = details?.causes?.flatMap(({ field }) => field ?? []) ?? []
    this.retryAfterMs = retryAfterMs
  }
}

type Status = { reason?: string; message?: string; details?: { causes?: { field?: string }[] } }

export type WatchEvent = { type: string; object: unknown }

/** Of the Kubernetes API what a provider needs: JSON calls, and a watch. */
export interface KubernetesApi {
  /** Answers the object. Throws an ApiError for a refusal; 429, and a connection that broke before the call was read, are tried again. */
  call(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object, signal?: AbortSignal): Promise<unknown>
  /** The events of a watch until it ends, or falls silent. Throws an ApiError for a refusal. */
  watch(path: string, signal: AbortSignal): AsyncGenerator<WatchEvent>
  close(): void
}

const CALL_MS = 30_000
/** A server that has nothing to tell sends a bookmark each minute. */
const SILENT_MS = 150_000
const TOKEN_MS = 60_000
const TRIES = 6
const MOST_BYTES = 256 * 1024 * 1024

export const kubernetesApi = (access: Access): KubernetesApi => {
  const { server, ca, insecure, client } = access
  const isPlain = server.startsWith('http:')
  const agent = isPlain
    ? new PlainAgent({ keepAlive: true, maxSockets: 32 })
    : new Agent({ keepAlive: true, maxSockets: 32, rejectUnauthorized: !insecure, ...(ca === undefined ? {} : { ca }), ...client })
  const token = rereadToken(access.token)

  const open = (method: string, path: string, body: string | undefined, signal: AbortSignal): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const bearer = token.current()
      const headers = {
        accept: 'application/json',
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      }
      const call = (isPlain ? plainRequest : request)(new URL(path, server), { method, agent, signal, headers }, resolve)
      // The server may close a connection that waits in the pool just when it is used again.
      call.on('error', (error: NodeJS.ErrnoException) =>
        reject(call.reusedSocket && error.code === 'ECONNRESET' ? new StaleConnection(error) : error),
      )
      call.end(body)
    })

  const once = async (method: string, path: string, body: string | undefined, signal: AbortSignal): Promise<unknown> => {
    const response = await open(method, path, body, signal)
    const answer = await jsonOf(response)
    const { statusCode = 500 } = response
    if (statusCode === 401) token.forget()
    if (statusCode >= 400) throw refusal(response, answer)
    return answer
  }

  return {
    call(method, path, body, signal) {
      const text = body === undefined ? undefined : JSON.stringify(body)
      return retry(
        () => {
          const late = AbortSignal.timeout(CALL_MS)
          return once(method, path, text, signal === undefined ? late : AbortSignal.any([signal, late]))
        },
        { waitMs: waitMsAfter, signal },
      )
    },
    async *watch(path, signal) {
      const silence = new AbortController()
      const timer = setTimeout(() => silence.abort(new Error('the watch fell silent')), SILENT_MS)
      try {
        const response = await open('GET', path, undefined, AbortSignal.any([signal, silence.signal]))
        if ((response.statusCode ?? 500) === 401) token.forget()
        if ((response.statusCode ?? 500) >= 400) throw refusal(response, await jsonOf(response))
        for await (const event of jsonLines(heard(response.setEncoding('utf8'), timer))) yield event as WatchEvent
      } finally {
        clearTimeout(timer)
        silence.abort()
      }
    },
    close: () => agent.destroy(),
  }
}

/** What comes, which puts the timer off. */
async function* heard(text: AsyncIterable<string>, timer: NodeJS.Timeout): AsyncGenerator<string> {
  for await (const chunk of text) {
    timer.refresh()
    yield chunk
  }
}

class StaleConnection extends Error {
  constructor(cause: Error) {
    super('the connection was closed', { cause })
  }
}

/** The API server has done nothing of what it answers with 429, or has not read. All that is called here may be called twice. */
const waitMsAfter = (error: unknown, failures: number): number | undefined => {
  if (failures >= TRIES) return undefined
  if (error instanceof StaleConnection) return 0
  if (!(error instanceof ApiError)) return undefined
  // With a token that has just been replaced the next call is another one.
  if (error.status === 401) return failures === 1 ? 0 : undefined
  return error.status === 429 ? (error.retryAfterMs ?? backoffMs(failures, { firstMs: 100, mostMs: 2000 })) : undefined
}

const refusal = ({ statusCode = 500, headers }: IncomingMessage, answer: unknown): ApiError => {
  const seconds = Number(headers['retry-after'])
  const status = typeof answer === 'object' && answer !== null ? (answer as Status) : {}
  return new ApiError(statusCode, status, Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 5) * 1000 : undefined)
}

/** The body; an object without fields where it is not JSON, as of a proxy in between. */
const jsonOf = async (response: IncomingMessage): Promise<unknown> => {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_BYTES) throw new Error(`the API server answered with more than ${MOST_BYTES} bytes`)
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  try {
    return text === '' ? {} : JSON.parse(text)
  } catch {
    if ((response.statusCode ?? 500) < 400) throw new Error('the API server answered with something that is not JSON')
    return { message: text.slice(0, 500) }
  }
}

/** The kubelet replaces the token of a service account long before it expires. */
const rereadToken = (read: (() => string) | undefined): { current(): string | undefined; forget(): void } => {
  let known: { token: string; at: number } | undefined
  return {
    current() {
      if (read === undefined) return undefined
      if (known === undefined || performance.now() - known.at > TOKEN_MS) known = { token: read(), at: performance.now() }
      return known.token
    },
    forget: () => {
      known = undefined
    },
  }
}
