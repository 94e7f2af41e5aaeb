import { createPublicKey, randomBytes, verify } from 'node:crypto'
import { type AgentChallenge, BoxofficeError, type RegisterAgentRequest, registrationStatement } from '@boxoffice/protocol'

/** A challenge is good for one registration within this time. */
const CHALLENGE_MS = 60_000
/** Only who holds the enroll token is given any. */
const MAX_CHALLENGES = 10_000

/** Checks that a registration was signed by whoever has the key that it names [C-50]. */
export class AgentProofs {
  readonly #issuer: () => string
  readonly #monotonic: () => number
  readonly #challenges = new Map<string, number>()

  /** `monotonic` in milliseconds. */
  constructor(issuer: () => string, monotonic: () => number) {
    this.#issuer = issuer
    this.#monotonic = monotonic
  }

  challenge(): AgentChallenge {
    const now = this.#monotonic()
    // In the order in which they were given.
    for (const [nonce, until] of this.#challenges) {
      if (until > now && this.#challenges.size < MAX_CHALLENGES) break
      this.#challenges.delete(nonce)
    }
    const nonce = randomBytes(24).toString('base64url')
    this.#challenges.set(nonce, now + CHALLENGE_MS)
    return { issuer: this.#issuer(), nonce }
  }

  /** The public key that has signed; null when the registration brings no proof. 401 for one that does not hold. */
  keyOf(request: RegisterAgentRequest): string | null {
    const { proof } = request
    if (proof === undefined) return null
    const until = this.#challenges.get(proof.nonce)
    this.#challenges.delete(proof.nonce)
    if (until === undefined || until <= this.#monotonic()) throw notProven('its challenge is unknown, used or older than 60 s')
    if (!signed(request, proof, this.#issuer())) throw notProven('its signature does not hold')
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
