import { BoxofficeError } from '@boxoffice/protocol'

const MiB = 1024 * 1024

/** Up to here output is answered as it always was, with nothing reserved ahead. */
const UNRESERVED_OUTPUT_BYTES = MiB

export type ResponseLimits = { perSession: number; perTenant: number; perAgent: number }

/** A tenant has half of it, so that no tenant takes all of it by many sessions. */
const DEFAULT_LIMITS: ResponseLimits = { perSession: 128 * MiB, perTenant: 256 * MiB, perAgent: 512 * MiB }

/** Whose response it is: ids of the session and of its tenant. */
export type ResponseOwner = { sid: string; tid: string }

/** What one response holds of the budget. */
export interface ResponseLease {
  /** It holds this many bytes at least, whatever is left: they are there already. */
  hold(bytes: number): void
  /** The response is out, or its client has gone. */
  release(): void
}

/**
 * Counts the output that the agent keeps in memory for answers to `POST /exec` and its like, per session, per tenant and in all.
 * What may need more than is left is refused before anything runs [C-63].
 */
export class ResponseBudget {
  readonly #limits: ResponseLimits
  readonly #sessions = new Map<string, number>()
  readonly #tenants = new Map<string, number>()
  #held = 0

  constructor(limits: ResponseLimits = DEFAULT_LIMITS) {
    this.#limits = limits
  }

  /** Bytes that are reserved or held now. */
  get held(): number {
    return this.#held
  }

  /**
   * For a response with both streams of a command, each up to `outputBytes`. Throws RATE_LIMITED when the budget is used up. What
   * reserves nothing is refused only where its own session has used up its part: the large responses of others are not its doing.
   */
  reserve(owner: ResponseOwner, outputBytes: number): ResponseLease {
    let mine = outputBytes > UNRESERVED_OUTPUT_BYTES ? 2 * outputBytes : 0
    const { perSession, perTenant, perAgent } = this.#limits
    const ofSession = (this.#sessions.get(owner.sid) ?? 0) + mine
    const ofTenant = (this.#tenants.get(owner.tid) ?? 0) + mine
    if (ofSession > perSession || (mine > 0 && (ofTenant > perTenant || this.#held + mine > perAgent)))
      throw new BoxofficeError('RATE_LIMITED', 'too many large answers wait for their clients: limit "buffered_answers"; try again', {
        retryAfter: 1,
        details: { limit: 'buffered_answers' },
      })
    let released = false
    this.#add(owner, mine)
    return {
      hold: (bytes) => {
        if (released || bytes <= mine) return
        this.#add(owner, bytes - mine)
        mine = bytes
      },
      release: () => {
        if (released) return
        released = true
        this.#add(owner, -mine)
      },
    }
  }

  #add({ sid, tid }: ResponseOwner, bytes: number): void {
    if (bytes === 0) return
    this.#held += bytes
    addTo(this.#sessions, sid, bytes)
    addTo(this.#tenants, tid, bytes)
  }
}

const addTo = (sums: Map<string, number>, key: string, bytes: number): void => {
  const sum = (sums.get(key) ?? 0) + bytes
  if (sum === 0) sums.delete(key)
  else sums.set(key, sum)
}
