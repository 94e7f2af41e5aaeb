import { ListSecretsResponse, SecretInfo } from '@boxoffice/protocol'
import type { ControlPlane } from './control-plane.ts'

export type SetSecretOptions = {
  /** Default: the one that is there. */
  description?: string | undefined
  signal?: AbortSignal | undefined
}

/** Secrets of the caller's tenant, which agents inject into requests that leave sandboxes; for operators. Nobody reads a value. */
export class Secrets {
  readonly #controlPlane: ControlPlane

  constructor(controlPlane: ControlPlane) {
    this.#controlPlane = controlPlane
  }

  /** Makes the secret, or gives it a new value: sessions have that within a minute. `value`: at most 64 KiB as UTF-8. */
  async set(name: string, value: string, { description, signal }: SetSecretOptions = {}): Promise<SecretInfo> {
    return await this.#controlPlane.json(pathOf(name), { method: 'PUT', json: { value, description }, signal }, SecretInfo)
  }

  /** In the order of their names. */
  async list({ signal }: { signal?: AbortSignal } = {}): Promise<SecretInfo[]> {
    const secrets: SecretInfo[] = []
    let cursor: string | null = null
    do {
      const search: string = new URLSearchParams({ limit: '1000', ...(cursor === null ? {} : { cursor }) }).toString()
      const page: ListSecretsResponse = await this.#controlPlane.json(`/v1/secrets?${search}`, { signal }, ListSecretsResponse)
      secrets.push(...page.secrets)
      cursor = page.next_cursor
    } while (cursor !== null)
    return secrets
  }

  /** Sessions lose it within a minute. */
  async remove(name: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    await this.#controlPlane.done(pathOf(name), { method: 'DELETE', signal })
  }
}

const pathOf = (name: string): string => `/v1/secrets/${encodeURIComponent(name)}`
