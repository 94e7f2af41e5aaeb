import { lookup } from 'node:dns'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import { readAtMost } from '@boxoffice/node-http'
import { literalAddress, permits, type TargetPolicy } from './targets.ts'

export type OutboundRequest = {
  method: 'GET' | 'POST'
  /** Always a configured URL, at most with an encoded id behind it; never one that a client sent [C-60]. */
  url: URL
  headers: Record<string, string>
  body?: string
}

/** Calls what the configuration names. Rejects when there is no whole response in time; any status is a response, also a redirect. */
export type OutboundCall = (request: OutboundRequest) => Promise<{ status: number; text: string }>

/** A thread of LangGraph comes with its state. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

/**
 * Addresses are checked where the connection is made, so that a name cannot lead elsewhere between check and dial. One
 * connection per call: answers are cached, and a kept connection would outlive the check. `ca`: PEM of who may have signed the
 * certificate of the other side, instead of those that Node trusts.
 */
export const outboundCall =
  (policy: TargetPolicy, timeoutMs: number, ca?: () => Promise<string>): OutboundCall =>
  async ({ method, url, headers, body }) => {
    const literal = literalAddress(url)
    if (literal !== undefined && !permits(policy, literal)) throw notPermitted(url.hostname)
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const tls = ca === undefined ? {} : { ca: await ca() }
    const signal = AbortSignal.timeout(timeoutMs)
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const request = send(url, { method, agent: false, signal, ...tls, lookup: checkedLookup(policy), headers: { ...headers, ...length } })
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.on('response', resolve).on('error', reject).end(body)
    })
    const answer = await readAtMost(response, { limit: MAX_ANSWER_BYTES, tooLong })
    return { status: response.statusCode ?? 0, text: answer.toString() }
  }

const checkedLookup =
  (policy: TargetPolicy): LookupFunction =>
  (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, [])
      if (addresses.some(({ address }) => !permits(policy, address))) return callback(notPermitted(hostname), [])
      const [first] = addresses
      if (options.all || first === undefined) return callback(null, addresses)
      callback(null, first.address, first.family)
    })

/** For the log of the broker; callers are told only that it failed. */
const notPermitted = (host: string): NodeJS.ErrnoException =>
  new Error(`${host} is, or leads to, an address that is not public; --allow-private-urls permits it`)

const tooLong = (): Error => new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
