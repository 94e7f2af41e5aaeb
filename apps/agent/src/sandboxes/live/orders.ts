/** An order of a broker. `revision`: the session's when it was given; brokers of before send none. */
export type Order = { revision?: number | undefined }
/** `force`: a client asks, and a stop ends what runs, where otherwise a sandbox in use is refused. */
export type SuspendOrder = Order & { force?: boolean | undefined }

/** Which suspends and resumes of one sandbox still hold: those of several brokers may come in another order than they were given. */
export class Orders {
  #latest = 0

  /** False for an order that is older than one that came before it. What a client asks for (`force`) holds whenever it comes. */
  isInForce({ revision, force = false }: SuspendOrder = {}): boolean {
    if (revision === undefined) return true
    if (revision < this.#latest) return force
    this.#latest = revision
    return true
  }

  /** What a broker is told of an order that does not hold: the revision of a later one. */
  overtaken(order: SuspendOrder = {}): { overtaken_by?: number } {
    return this.isInForce(order) ? {} : { overtaken_by: this.#latest }
  }
}
