import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ErrorEnvelope, HeartbeatResponse, NegotiateResponse, RefreshTokenResponse } from '@boxoffice/protocol'
import { afterAll } from 'vitest'
import { type BrokerConfig, createBroker } from '../../src/index.ts'
import { type FakeAgentOptions, startFakeAgent } from './fake-agent.ts'

/** A broker over real HTTP and a real database, with a clock that a test can move, and what tests say to it. */
export type TestBroker = Awaited<ReturnType<typeof startTestBroker>>
export type Reply<T = unknown> = { status: number; headers: Headers; body: T }
export type Refusal = ErrorEnvelope

const made: string[] = []
afterAll(() => made.forEach(removeDir))

/** A new directory; it is removed at the latest when the tests of the file have ended. */
export const tempDir = (): string => {
  const directory = mkdtempSync(join(tmpdir(), 'boxoffice-broker-'))
  made.push(directory)
  return directory
}
export const removeDir = (directory: string): void => rmSync(directory, { recursive: true, force: true })

export async function startTestBroker(config: Partial<BrokerConfig> = {}, overrides: Parameters<typeof createBroker>[1] = {}) {
  const dataDir = config.dataDir ?? tempDir()
  let offset = 0
  // A busy machine may take longer than the 6 s of the product until an agent reports again.
  const settings = { port: 0, createApiKey: true, logLevel: 'silent', agentTimeout: 600, ...config, dataDir } as const
  let jumped = 0
  const clocks = { now: () => Date.now() + offset + jumped, monotonic: () => performance.now() + offset }
  const broker = createBroker(settings, { ...clocks, ...overrides })
  // Not the public URL, which may lead nowhere.
  const { localUrl: url, enrollToken, apiKeyCreated, boxRpcPort } = await broker.start()
  const key = config.apiKey ?? apiKeyCreated ?? ''
  const agents: Awaited<ReturnType<typeof startFakeAgent>>[] = []
  const as = (apiKey: string) => caller(url, apiKey)
  return {
    ...as(key),
    broker,
    url,
    key,
    dataDir,
    enrollToken,
    boxRpcPort,
    as,
    /** The broker's clock, in Unix seconds. */
    now: () => Math.floor(clocks.now() / 1000),
    /** The machine's clock is set, by so much from the true time: no time passes. */
    setClock(ms: number) {
      jumped = ms
    },
    agents,
    /** Moves the broker's clock; nobody reports. */
    pass(ms: number) {
      offset += ms
    },
    /** Moves the broker's clock and lets agents report again, so that they do not count as silent. */
    async advance(ms: number) {
      offset += ms
      await Promise.all(agents.map((agent) => agent.heartbeat()))
    },
    async startAgent(options: Partial<FakeAgentOptions> = {}) {
      const agent = await startFakeAgent({ brokerUrl: url, enrollToken, ...options })
      agents.push(agent)
      return agent
    },
    /** A key for another principal, and calls with it. */
    async principal(name: string, fields: Record<string, unknown> = {}) {
      const { status, body } = await as(key).post<{ id: string; key: string }>('/v1/keys', { name, principal: name, ...fields })
      if (status !== 201) throw new Error(`key: ${status} ${JSON.stringify(body)}`)
      return { ...as(body.key), key: body.key, keyId: body.id }
    },
    /** Ends the broker and its agents; keeps the data directory for `keep`. */
    async stop(keep = false) {
      await Promise.all(agents.map((agent) => agent.close()))
      await broker.close()
      if (!keep && config.dataDir === undefined) removeDir(dataDir)
    },
  }
}

export type Caller = ReturnType<typeof caller>

export function caller(url: string, apiKey: string) {
  const send = async <T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply<T>> => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: (text === '' ? undefined : JSON.parse(text)) as T }
  }
  const post = <T>(path: string, body?: unknown, headers?: Record<string, string>) => send<T>('POST', path, body, headers)
  const negotiate = <T = NegotiateResponse>(fields: Record<string, unknown>, headers?: Record<string, string>) =>
    post<T>('/v1/sandbox/sessions', fields, headers)
  return {
    send,
    post,
    negotiate,
    get: <T>(path: string, headers?: Record<string, string>) => send<T>('GET', path, undefined, headers),
    delete: <T>(path: string) => send<T>('DELETE', path),
    /** `ensure`, and its answer; throws unless it is 200. */
    async ensure(threadId: string, fields: Record<string, unknown> = {}): Promise<NegotiateResponse> {
      const { status, body } = await negotiate({ thread_id: threadId, mode: 'ensure', ...fields })
      if (status !== 200) throw new Error(`ensure ${threadId}: ${status} ${JSON.stringify(body)}`)
      return body
    },
    /** A refused negotiate. */
    refused: (fields: Record<string, unknown>, headers?: Record<string, string>) => negotiate<Refusal>(fields, headers),
    refresh: <T = { token: string; expires_at: string }>(id: string, body?: unknown) => post<T>(`/v1/sandbox/sessions/${id}/refresh`, body),
    read: <T = NegotiateResponse>(id: string, query = '') => send<T>('GET', `/v1/sandbox/sessions/${id}${query}`),
    refreshToken: <T = RefreshTokenResponse>(id: string, body?: unknown) => post<T>(`/v1/sandbox/sessions/${id}/refresh-token`, body),
    heartbeat: <T = HeartbeatResponse>(id: string) => post<T>(`/v1/sandbox/sessions/${id}/heartbeat`, {}),
    release: (id: string) => send<Refusal>('DELETE', `/v1/sandbox/sessions/${id}`),
  }
}

/** A promise that a test settles by hand. */
export function gate<T = void>() {
  const { promise, resolve } = Promise.withResolvers<T>()
  return { promise, open: resolve }
}
