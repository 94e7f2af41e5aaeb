import { BoxofficeError } from '@boxoffice/protocol'

/** An API key, or the bearer token of an identity provider; a function is asked for each request. */
export type Auth = { apiKey: string } | { token: string | (() => string | Promise<string>) }

export type BrokerOptions = { url: string; auth: Auth }

/** Longer than a broker waits for a sandbox [C-17]. */
const TIMEOUT_MS = 75_000
/** Of a response, what its reader needs. */
const HEADERS = ['content-type', 'retry-after', 'x-request-id']

export type BrokerRequest = { method: string; body?: unknown; signal: AbortSignal; prefer?: string | undefined }

/** Asks the broker with the server's own credential. What it answers is the answer, also where it refuses. */
export const askBroker = async ({ url, auth }: BrokerOptions, path: string, request: BrokerRequest): Promise<Response> => {
  const { method, body, prefer } = request
  const secret = 'apiKey' in auth ? auth.apiKey : typeof auth.token === 'function' ? await auth.token() : auth.token
  const headers = {
    authorization: `Bearer ${secret}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(prefer === undefined ? {} : { prefer }),
  }
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)])
  try {
    // A redirect would carry the credential to wherever it points.
    const init = { method, headers, signal, redirect: 'error', ...(body === undefined ? {} : { body: JSON.stringify(body) }) } as const
    return passedOn(await fetch(`${url.replace(/\/+$/, '')}${path}`, init))
  } catch (error) {
    throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker of the sandboxes cannot be reached; try again', { cause: error })
  }
}

const passedOn = (response: Response): Response => {
  const headers = new Headers({ 'cache-control': 'no-store' })
  for (const name of HEADERS) {
    const value = response.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  return new Response(response.body, { status: response.status, headers })
}
