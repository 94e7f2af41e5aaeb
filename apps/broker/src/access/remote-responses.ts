import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { BoxofficeError, type Capability } from '@boxoffice/protocol'

/** What somebody else says of a principal and a scope. `role` null: it has no opinion, the first to ensure is the owner. */
export type RemoteResponse = { allow: true; role: 'owner' | 'member' | null; capabilities: readonly Capability[] } | { allow: false }

export type RemoteResponsesOptions = {
  /** Of the authorizer, for the refusal. */
  name: string
  cacheSeconds: number
  /** Monotonic milliseconds. */
  monotonic: () => number
}

/** A refusal is forgotten sooner: whoever has just been let in should not wait a minute. */
const MAX_DENIAL_MS = 5000
const MAX_ANSWERS = 10_000

/** Remembers answers for a while, asks one question once at a time, and makes every failure the same 503 [C-01]. */
export class RemoteResponses {
  readonly #options: RemoteResponsesOptions
  readonly #known = new BoundedCache<string, { answer: RemoteResponse; until: number }>(MAX_ANSWERS)
  readonly #asking = new Map<string, Promise<RemoteResponse>>()

  constructor(options: RemoteResponsesOptions) {
    this.#options = options
  }

  async get(question: string, ask: () => Promise<RemoteResponse>): Promise<RemoteResponse> {
    const known = this.#known.get(question)
    if (known !== undefined && this.#options.monotonic() < known.until) return known.answer
    const asking = this.#asking.get(question) ?? this.#ask(question, ask)
    return asking
  }

  #ask(question: string, ask: () => Promise<RemoteResponse>): Promise<RemoteResponse> {
    const { name } = this.#options
    const asking = ask()
      .then((answer) => {
        this.#remember(question, answer)
        return answer
      })
      .catch((thrown: unknown) => {
        throw new BoxofficeError('BACKEND_UNAVAILABLE', `the authorizer "${name}" could not be asked; try again`, {
          retryAfter: 2,
          cause: thrown,
        })
      })
      .finally(() => this.#asking.delete(question))
    this.#asking.set(question, asking)
    return asking
  }

  #remember(question: string, answer: RemoteResponse): void {
    const { cacheSeconds, monotonic } = this.#options
    const ms = answer.allow ? cacheSeconds * 1000 : Math.min(cacheSeconds * 1000, MAX_DENIAL_MS)
    if (ms > 0) this.#known.set(question, { answer, until: monotonic() + ms })
    else this.#known.delete(question)
  }
}
