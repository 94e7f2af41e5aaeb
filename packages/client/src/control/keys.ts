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

const RotatedKeys = z.object({
  kid: z.string().nullable(),
  withdrawn: z.array(z.string()),
  agents_told: z.number(),
  agents_not_reached: z.array(z.string()),
})
/** What `rotateSigning` has done: `kid` is null while the next key waits until every agent can know it. */
export type RotatedKeys = z.infer<typeof RotatedKeys>

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

  /**
   * Rotates the keys that sign session tokens. With `now` the present ones are withdrawn at once, for one that has leaked; sessions
   * get other tokens and go on.
   */
  async rotateSigning({ now = false, signal }: { now?: boolean; signal?: AbortSignal } = {}): Promise<RotatedKeys> {
    return await this.#controlPlane.json('/v1/signing-keys/rotate', { method: 'POST', json: { now }, signal }, RotatedKeys)
  }

  /** In force within 2 s. */
  async revoke(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    await this.#controlPlane.done(`/v1/keys/${encodeURIComponent(id)}`, { method: 'DELETE', signal })
  }
}
