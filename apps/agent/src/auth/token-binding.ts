/** Whether what the broker shows to this agent names this agent's key (`cnf.jkt`) [C-50]. */
export interface TokenBinding {
  /** The key of this agent. */
  readonly thumbprint: string
  /** A response of the broker has said whether its control tokens for this agent name the key. */
  report(bound: boolean): void
  /** Whether a control token with this claim is for this agent. */
  admits(cnf: { jkt: string } | undefined): boolean
}

/** For so long after a response of a broker that names no keys, its tokens are taken: one of two brokers may be of before. */
const UNBOUND_MS = 60_000

export const createTokenBinding = (thumbprint: string, monotonic: () => number = () => performance.now()): TokenBinding => {
  let required = false
  let unboundUntil = Number.NEGATIVE_INFINITY
  return {
    thumbprint,
    report(bound) {
      required = bound
      if (!bound) unboundUntil = monotonic() + UNBOUND_MS
    },
    admits(cnf) {
      if (cnf !== undefined) return cnf.jkt === thumbprint
      return !required || monotonic() < unboundUntil
    },
  }
}
