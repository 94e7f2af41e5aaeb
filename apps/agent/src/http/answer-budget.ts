import { BoxofficeError } from '@boxoffice/protocol'

const MiB = 1024 * 1024

/** Up to here output is answered as it always was, with nothing reserved ahead. */
const UNRESERVED_OUTPUT_BYTES = MiB

export type AnswerLimits = { perSession: number; perAgent: number }

const DEFAULT_LIMITS: AnswerLimits = { perSession: 128 * MiB, perAgent: 512 * MiB }

/** What one answer holds of the budget. */
export interface AnswerLease {
  /** It holds this many bytes at least, whatever is left: they are there already. */
  hold(bytes: number): void
  /** The answer is out, or its client has gone. */
  release(): void
}

/**
 * Counts the output that the agent keeps in memory for answers to `POST /exec` and its like, per session and in all. What may
 * need more than is left is refused before anything runs [C-63].
 */
export class AnswerBudget {
  readonly #limits: AnswerLimits
  readonly #sessions = new Map<string, number>()
  #held = 0

  constructor(limits: AnswerLimits = DEFAULT_LIMITS) {
    this.#limits = limits
  }

  /** Bytes that are reserved or held now. */
  get held(): number {
    return this.#held
  }

  /** For an answer with both streams of a command, each up to `outputBytes`. Throws RATE_LIMITED when the budget is used up. */
  reserve(sessionId: string, outputBytes: number): AnswerLease {
    let mine = outputBytes > UNRESERVED_OUTPUT_BYTES ? 2 * outputBytes : 0
    const { perSession, perAgent } = this.#limits
    if ((this.#sessions.get(sessionId) ?? 0) + mine > perSession || this.#held + mine > perAgent)
      throw new BoxofficeError('RATE_LIMITED', 'too many large answers wait for their clients: limit "buffered_answers"; try again', {
        retryAfter: 1,
        details: { limit: 'buffered_answers' },
      })
    let released = false
    this.#add(sessionId, mine)
    return {
      hold: (bytes) => {
        if (released || bytes <= mine) return
        this.#add(sessionId, bytes - mine)
        mine = bytes
      },
      release: () => {
        if (released) return
        released = true
        this.#add(sessionId, -mine)
      },
    }
  }

  #add(sessionId: string, bytes: number): void {
    if (bytes === 0) return
    this.#held += bytes
    const session = (this.#sessions.get(sessionId) ?? 0) + bytes
    if (session === 0) this.#sessions.delete(sessionId)
    else this.#sessions.set(sessionId, session)
  }
}
