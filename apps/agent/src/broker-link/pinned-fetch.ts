import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/**
 * `fetch` from the server that has this certificate, and from no other. For `boxoffice up`: its agent reaches the broker by a
 * loopback address, which is in no certificate, and whoever signed that one is nothing to a part of the same process.
 */
export const pinnedFetch =
  (certificate: string): Fetch =>
  async (url, { method = 'GET', headers, body, signal }) => {
    const call = request(url, {
      method,
      headers: headers as Record<string, string>,
      ...(signal ? { signal } : {}),
      ca: certificate,
      allowPartialTrustChain: true,
      checkServerIdentity: () => undefined,
    })
    call.end(body)
    const [response] = (await once(call, 'response')) as [IncomingMessage]
    return new Response(await text(response), { status: response.statusCode ?? 502 })
  }
