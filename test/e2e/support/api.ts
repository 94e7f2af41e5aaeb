import { API_KEY } from './stack.ts'

export type Grant = {
  session_id: string
  thread_id: string
  sandbox: { id: string; provider: string; http_base_url: string; ws_base_url: string }
  token: string
  expires_at: string
}

export type Reply = { status: number; headers: Headers; body: unknown; text: string }

/** One plain HTTP request, as curl would send it; the body is parsed when it is JSON. */
export const request = async (url: string, init: RequestInit = {}): Promise<Reply> => {
  const response = await fetch(url, init)
  const text = await response.text()
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined // not JSON: `text` has it
  }
  return { status: response.status, headers: response.headers, body, text }
}

const json = (body: unknown): string => JSON.stringify(body)

/** The broker's routes, raw: for tests that look at the wire and not at the SDK. */
export const brokerApi = (url: string, key = API_KEY) => {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const get = (path: string) => request(`${url}${path}`, { headers: { authorization: headers.authorization } })
  return {
    negotiate: (body: unknown, extra: Record<string, string> = {}) =>
      request(`${url}/v1/sandbox/sessions`, { method: 'POST', headers: { ...headers, prefer: 'wait=60', ...extra }, body: json(body) }),
    ensure: async (thread: string, fields: Record<string, unknown> = {}): Promise<Grant> => {
      const reply = await request(`${url}/v1/sandbox/sessions`, {
        method: 'POST',
        headers: { ...headers, prefer: 'wait=60' },
        body: json({ thread_id: thread, mode: 'ensure', ...fields }),
      })
      if (reply.status !== 200) throw new Error(`ensure ${thread}: ${reply.status} ${reply.text}`)
      return reply.body as Grant
    },
    release: (sessionId: string) =>
      request(`${url}/v1/sandbox/sessions/${sessionId}`, { method: 'DELETE', headers: { authorization: headers.authorization } }),
    get,
    /** State of a session, as the broker says it. */
    stateOf: async (sessionId: string): Promise<string> =>
      ((await get(`/v1/sandbox/sessions/${sessionId}?token=false`)).body as { binding: { state: string } }).binding.state,
  }
}

/** A dataplane request with the session's token. */
export const dataplane = (grant: Grant, method: string, path: string, body?: unknown): Promise<Reply> =>
  request(`${grant.sandbox.http_base_url}${path}`, {
    method,
    headers: { authorization: `Bearer ${grant.token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: json(body) }),
  })
