import { resolveConnection } from '../settings/connection.ts'
import { UsageError } from '../settings/usage-error.ts'
import type { Check } from './check.ts'

/** A busy broker is not one that is away. */
const WITHIN_MS = 30_000

type BrokerResponse = { status: number; body: { status?: unknown; error?: { message?: unknown } } | undefined }

/** The broker that commands of this shell would talk to: whether it is one, knows the key, and can make sandboxes. */
export const checkBroker = async (url: string, env: NodeJS.ProcessEnv = process.env): Promise<Check> => {
  const check = (ok: boolean, message: string): Check => ({ name: 'broker', ok, message: `${url} ${message}` })
  const alive = await get(`${url}/healthz`)
  if (alive === undefined) return check(true, 'does not answer: `boxoffice up` starts a Boxoffice on this machine')
  if (alive.body?.status !== 'ok') return check(false, 'answers, but is no Boxoffice: --broker or BOXOFFICE_URL names another')
  const key = keyFor(url, env)
  if (key instanceof UsageError) return check(false, `answers; ${key.message}`)
  const authenticated = await get(`${url}/v1/profiles`, key)
  if (authenticated?.status !== 200) return check(false, 'does not accept the key: --api-key or BOXOFFICE_API_KEY names another')
  const ready = await get(`${url}/readyz`)
  if (ready?.status !== 200) return check(false, `accepts the key, but is ${String(ready?.body?.error?.message ?? 'not ready')}`)
  return check(true, 'answers, accepts the key, and can make sandboxes')
}

const keyFor = (broker: string, env: NodeJS.ProcessEnv): string | UsageError => {
  try {
    return resolveConnection({ broker }, env).apiKey
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
}

/** Undefined when nobody answers. */
const get = async (url: string, key?: string): Promise<BrokerResponse | undefined> => {
  try {
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(WITHIN_MS) })
    const text = await response.text()
    return { status: response.status, body: parsed(text) }
  } catch {
    return undefined
  }
}

const parsed = (text: string): BrokerResponse['body'] => {
  try {
    return JSON.parse(text) as BrokerResponse['body']
  } catch {
    return undefined
  }
}
