import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { Readable } from 'node:stream'
import type { ReadableStream as NodeReadableStream } from 'node:stream/web'
import { readAtMost } from '@boxoffice/node-http'
import { BoxofficeError, ErrorEnvelope, errorCodeFrom } from '@boxoffice/protocol'
import { failSlowConnect } from '../../../agents/slow-connect.ts'
import type { BrokerTokens } from '../../../tokens/broker-tokens.ts'
import { endpointPath, PEERS_PATH, serverPath } from './paths.ts'

/** Another broker of the database. */
export type Peer = { id: string; url: string }

/** Of a request to an endpoint, what its owner has to know; credentials are not among it. */
const PASSED = /^(?:accept|content-type|content-length|last-event-id|x-request-id|mcp-.*)$/
/** Of the owner's answer, what its client has to know. */
const RETURNED = /^(?:content-type|cache-control|retry-after|x-request-id|allow|mcp-.*)$/
/** An end kills a process, which has 5 s for it. */
const CALL_TIMEOUT_MS = 60_000
const MAX_REFUSAL_BYTES = 64 * 1024
/** How soon a connection on which nothing comes is found to be one to nobody. */
const KEEP_ALIVE_MS = 5000

/**
 * What a broker asks of the owner of a server. Each request is a connection of its own, which has 3 s to be made; an owner that is away
 * is 503 with Retry-After.
 */
export class PeerClient {
  readonly #tokens: Pick<BrokerTokens, 'sign'>

  constructor(tokens: Pick<BrokerTokens, 'sign'>) {
    this.#tokens = tokens
  }

  /**
   * Passes a request for the endpoint of a server on, and the owner's answer back as it comes. `sid`: the session of whoever asks, whose
   * credential stays here.
   */
  async forward(peer: Peer, name: string, request: Request, { sid, signal }: { sid: string; signal: AbortSignal }): Promise<Response> {
    const { method, body } = request
    const headers = Object.fromEntries([...request.headers].filter(([header]) => PASSED.test(header)))
    const sent = await this.#open(peer, { method, path: endpointPath(name), sid, headers, signal })
    const answered = response(sent)
    if (body === null) sent.end()
    else
      Readable.fromWeb(body as NodeReadableStream)
        .on('error', () => sent.destroy())
        .pipe(sent)
    const answer = await answered.catch((thrown: unknown) => {
      throw away(thrown)
    })
    const returned = Object.entries(answer.headers).flatMap(([header, value]) => (RETURNED.test(header) ? [[header, String(value)]] : []))
    const hasBody = answer.statusCode !== 204 && answer.statusCode !== 304
    if (!hasBody) answer.resume()
    return new Response(hasBody ? (Readable.toWeb(answer) as ReadableStream) : null, {
      status: answer.statusCode ?? 502,
      headers: Object.fromEntries(returned),
    })
  }

  /** Begins a server anew that has given up. */
  begin(peer: Peer, name: string): Promise<void> {
    return this.#call(peer, 'POST', serverPath(name))
  }

  /** Ends a server, with its process. */
  end(peer: Peer, name: string): Promise<void> {
    return this.#call(peer, 'DELETE', serverPath(name))
  }

  async #call(peer: Peer, method: string, path: string): Promise<void> {
    const sent = await this.#open(peer, { method, path, sid: null, headers: {}, signal: AbortSignal.timeout(CALL_TIMEOUT_MS) })
    let status: number | undefined
    let text: string
    try {
      const answered = response(sent)
      sent.end()
      const answer = await answered
      status = answer.statusCode
      const limit = MAX_REFUSAL_BYTES
      text = (await readAtMost(answer, { limit, tooLong: () => new Error('the answer is too large') })).toString()
    } catch (thrown) {
      throw away(thrown)
    }
    if (status !== 204) throw refusalOf(status, text)
  }

  async #open({ id, url }: Peer, { method, path, sid, headers, signal }: Sending): Promise<ClientRequest> {
    const authorization = `Bearer ${await this.#tokens.sign(id, { method, path, sid })}`
    const target = new URL(`${url}${PEERS_PATH}${path}`)
    const options = { method, headers: { ...headers, authorization }, signal, agent: false as const }
    const sent = target.protocol === 'https:' ? httpsRequest(target, options) : httpRequest(target, options)
    failSlowConnect(sent)
    sent.setSocketKeepAlive(true, KEEP_ALIVE_MS)
    return sent
  }
}

type Sending = { method: string; path: string; sid: string | null; headers: Record<string, string>; signal: AbortSignal }

/** What goes wrong after it has come is told by itself. */
const response = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    sent.on('response', resolve).on('error', reject)
  })

const away = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker that runs the MCP server does not answer; another one takes it over', {
    retryAfter: 2,
    cause,
  })

/** The owner's refusal as its own; one that does not know this broker is as good as away. */
function refusalOf(status: number | undefined, text: string): BoxofficeError {
  const envelope = ErrorEnvelope.safeParse(parseJson(text))
  const code = envelope.success ? errorCodeFrom(envelope.data.error.code) : undefined
  if (!envelope.success || code === undefined || code === 'INTERNAL' || code === 'UNAUTHENTICATED') return away(`status ${status}`)
  return new BoxofficeError(code, envelope.data.error.message, code === 'BACKEND_UNAVAILABLE' ? { retryAfter: 2 } : {})
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
