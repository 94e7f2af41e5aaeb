import { Sandbox } from 'e2b'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../../e2e/support/stack.ts'

/** A running Boxoffice with one sandbox of E2B's published SDK, which its cases share. */
export class E2bStand {
  stack!: Stack
  shared!: Sandbox

  async start(provider: ProviderName): Promise<void> {
    this.stack = await startStack({ provider })
    this.shared = await Sandbox.create(this.at())
  }

  /** Options of the SDK. */
  at() {
    const url = `${this.stack.brokerUrl}/compat/e2b`
    return { apiUrl: url, sandboxUrl: url, apiKey: API_KEY, validateApiKey: false }
  }

  /** The in-sandbox API as it is, with what the SDK sends; `headers` beat it. */
  envd(path: string, { headers, ...init }: RequestInit & { headers: Record<string, string> }): Promise<Response> {
    return fetch(`${this.at().apiUrl}${path}`, { ...init, headers: { ...headersOf(this.shared), ...headers } })
  }

  /** The broker's own API. */
  control(method: string, path: string, body: object, key = API_KEY): Promise<Response> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    return fetch(`${this.stack.brokerUrl}/v1${path}`, { method, headers, body: JSON.stringify(body) })
  }

  async newKey(fields: { principal: string; role: string; capabilities?: string[] }): Promise<string> {
    return ((await (await this.control('POST', '/keys', { name: fields.principal, ...fields })).json()) as { key: string }).key
  }
}

/** By what the in-sandbox API knows a sandbox and who asks. */
export const headersOf = (sandbox: Sandbox): Record<string, string> => ({
  'e2b-sandbox-id': sandbox.sandboxId,
  'x-access-token': (sandbox as unknown as { envdAccessToken: string }).envdAccessToken,
})
