import { z } from 'zod'
import type { ControlPlane } from './control-plane.ts'

const EnrollToken = z.object({
  id: z.string(),
  name: z.string(),
  one_use: z.boolean(),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  used_at: z.string().nullable(),
  used_by: z.string().nullable(),
  revoked_at: z.string().nullable(),
})
/** An enroll token as it is listed: never the secret itself. `used_by` is the id of the agent that it enrolled last. */
export type EnrollToken = z.infer<typeof EnrollToken>

const ListEnrollTokensResponse = z.object({ enroll_tokens: z.array(EnrollToken) })
const CreateEnrollTokenResponse = z.object({ id: z.string(), token: z.string() })

export type CreateEnrollTokenOptions = {
  name: string
  /** One install registers with it, and may go on doing so. */
  oneUse?: boolean | undefined
  /** New installs are refused after so long; default: never. */
  expiresInSeconds?: number | undefined
  signal?: AbortSignal | undefined
}

/** Tokens by which agents register; for operators. */
export class EnrollTokens {
  readonly #controlPlane: ControlPlane

  constructor(controlPlane: ControlPlane) {
    this.#controlPlane = controlPlane
  }

  async list({ signal }: { signal?: AbortSignal } = {}): Promise<EnrollToken[]> {
    return (await this.#controlPlane.json('/v1/enroll-tokens', { signal }, ListEnrollTokensResponse)).enroll_tokens
  }

  /** `token` is shown this once. */
  async create({ name, oneUse, expiresInSeconds, signal }: CreateEnrollTokenOptions): Promise<{ id: string; token: string }> {
    const json = { name, one_use: oneUse, expires_in_seconds: expiresInSeconds }
    return await this.#controlPlane.json('/v1/enroll-tokens', { method: 'POST', json, signal }, CreateEnrollTokenResponse)
  }

  /** Nobody registers with it any more; agents that are registered go on. */
  async revoke(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    await this.#controlPlane.done(`/v1/enroll-tokens/${encodeURIComponent(id)}`, { method: 'DELETE', signal })
  }
}
