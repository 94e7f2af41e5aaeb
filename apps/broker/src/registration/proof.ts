import { createPublicKey, randomBytes, verify } from 'node:crypto'
import { type AgentChallenge, BoxofficeError, type RegisterAgentRequest, registrationStatement } from '@boxoffice/protocol'
import type { ChallengeStore } from '../store/store.ts'

/** A challenge is good for one registration within this time. */
const CHALLENGE_MS = 60_000

export type AgentProofsOptions = { challenges: ChallengeStore; issuer: () => string; now: () => number }

/** Checks that a registration was signed by whoever has the key that it names [C-50]. */
export class AgentProofs {
  readonly #options: AgentProofsOptions

  constructor(options: AgentProofsOptions) {
    this.#options = options
  }

  async challenge(): Promise<AgentChallenge> {
    const { challenges, issuer, now } = this.#options
    const nonce = randomBytes(24).toString('base64url')
    const at = now()
    await challenges.give(nonce, at + CHALLENGE_MS, at)
    return { issuer: issuer(), nonce }
  }

  /** The public key that has signed; null when the registration brings no proof. 409 for one that does not hold. */
  async keyOf(request: RegisterAgentRequest): Promise<string | null> {
    const { challenges, issuer, now } = this.#options
    const { proof } = request
    if (proof === undefined) return null
    if (!signed(request, proof, issuer())) throw notProven('its signature does not hold')
    if (!(await challenges.take(proof.nonce, now()))) throw notProven('its challenge is unknown, used or older than 60 s')
    return proof.public_key
  }
}

function signed(request: RegisterAgentRequest, proof: NonNullable<RegisterAgentRequest['proof']>, issuer: string): boolean {
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: proof.public_key }, format: 'jwk' })
    const canonical = key.export({ format: 'jwk' }).x === proof.public_key
    const statement = Buffer.from(registrationStatement(issuer, request, proof))
    return canonical && verify(null, statement, key, Buffer.from(proof.signature, 'base64url'))
  } catch {
    return false // not a key
  }
}

/** Not UNAUTHENTICATED: that would say that the enroll token is wrong, and end an agent that has only been slow. */
const notProven = (reason: string): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `the proof of the registration is refused: ${reason}; register again`)
