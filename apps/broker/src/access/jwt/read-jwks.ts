import type { OutboundCall } from '../../outbound/call.ts'
import type { ReadKeys } from './remote-keys.ts'

/** Reads a JWKS at its URL, with a bearer token where `token` gives one. */
export const readJwks =
  (url: string, call: OutboundCall, token?: () => Promise<string>): ReadKeys =>
  async () => {
    const credential: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${await token()}` }
    const { status, text } = await call({
      method: 'GET',
      url: new URL(url),
      headers: { accept: 'application/jwk-set+json, application/json', ...credential },
    })
    if (status !== 200) throw new Error(`the JWKS URL answered ${status}`)
    return text
  }
