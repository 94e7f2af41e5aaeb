import { z } from 'zod'
import type { ControlPlane } from './control-plane.ts'

const ApiKey = z.object({
  id: z.string(),
  name: z.string(),
  principal: z.string(),
  role: z.string(),
  rights: z.array(z.string()),
  created_at: z.string().optional(),
})
/** A key as it is listed: never the secret itself. */
export type ApiKey = z.infer<typeof ApiKey>

const ListKeysResponse = z.object({ keys: z.array(ApiKey) })
const CreateKeyResponse = z.object({ id: z.string(), key: z.string() })

export type CreateKeyOptions = {
  name: string
  principal: string
  role?: 'operator' | 'user' | undefined
  rights?: readonly string[] | undefined
  tenant?: string | undefined
  signal?: AbortSignal | undefined
}

/** API keys of the caller's tenant; for operators. */
export class Keys {
  readonly #controlPlane: ControlPlane

  constructor(controlPlane: ControlPlane) {
    this.#controlPlane = controlPlane
  }

  async list({ signal }: { signal?: AbortSignal } = {}): Promise<ApiKey[]> {
    return (await this.#controlPlane.json('/v1/keys', { signal }, ListKeysResponse)).keys
  }

  /** `key` is shown this once. */
  async create({ signal, ...key }: CreateKeyOptions): Promise<{ id: string; key: string }> {
    return await this.#controlPlane.json('/v1/keys', { method: 'POST', json: key, signal }, CreateKeyResponse)
  }

  /** In force within 2 s. */
  async revoke(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    await this.#controlPlane.done(`/v1/keys/${encodeURIComponent(id)}`, { method: 'DELETE', signal })
  }
}
