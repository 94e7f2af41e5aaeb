import http from 'node:http'

export type Answer = { status: number; body: string }

/** A keep-alive `node:http` client: what a Node program without our SDK would write. */
export const httpClient = (maxSockets = 64) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets })
  const send = (method: string, url: string, headers: Record<string, string>, body?: string): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const request = http.request(
        url,
        {
          method,
          agent,
          headers:
            body === undefined
              ? headers
              : { ...headers, 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) },
        },
        (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (chunk: string) => {
            text += chunk
          })
          response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
          response.on('error', reject)
        },
      )
      request.on('error', (cause) => reject(new Error(`${method} ${url}: ${cause.message}`, { cause })))
      request.end(body)
    })
  return { agent, send, close: () => agent.destroy() }
}

export type Grant = {
  session_id: string
  token: string
  expires_at: string
  sandbox: { id: string; http_base_url: string; ws_base_url: string }
}

/** The broker's routes that the rows use. Any answer but the expected one ends the row. */
export const brokerClient = (brokerUrl: string, apiKey: string) => {
  const client = httpClient()
  const headers = { authorization: `Bearer ${apiKey}` }
  const expectStatus = (answer: Answer, status: number): string => {
    if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.body}`)
    return answer.body
  }
  return {
    ensure: async (thread: string, profile?: string, relay?: 'always' | 'never'): Promise<Grant> => {
      const body = JSON.stringify({ thread_id: thread, mode: 'ensure', profile, relay })
      return JSON.parse(
        expectStatus(await client.send('POST', `${brokerUrl}/v1/sandbox/sessions`, { ...headers, prefer: 'wait=60' }, body), 200),
      ) as Grant
    },
    /** As the client does it before its token ends. */
    refresh: async (sessionId: string): Promise<Pick<Grant, 'token' | 'expires_at'>> => {
      const { token, expires_at } = JSON.parse(
        expectStatus(await client.send('POST', `${brokerUrl}/v1/sandbox/sessions/${sessionId}/refresh`, headers, '{}'), 200),
      ) as Grant
      return { token, expires_at }
    },
    release: async (sessionId: string): Promise<void> => {
      expectStatus(await client.send('DELETE', `${brokerUrl}/v1/sandbox/sessions/${sessionId}`, headers), 204)
    },
    close: client.close,
  }
}

/** Runs a command through `POST /exec` and insists on exit code 0. */
export const execOnce = async (client: ReturnType<typeof httpClient>, grant: Grant, body: string): Promise<void> => {
  const answer = await client.send('POST', `${grant.sandbox.http_base_url}/exec`, { authorization: `Bearer ${grant.token}` }, body)
  if (answer.status !== 200 || !answer.body.includes('"exit_code":0')) throw new Error(`exec: ${answer.status} ${answer.body}`)
}
