/** Whatever can let go of the descriptors that it holds for work to come; false where work is there. */
export type Awake = { rest(): boolean }

/** Of what is kept free (`RESERVES` in room.ts): a listening socket and a spare channel for each. */
const DESCRIPTORS_OF_EACH = 2
const SHARE = 1 / 16
const AT_LEAST = 4

/**
 * Links that hold more descriptors than an idle one, the longest awake first. Above a number that the agent's descriptors allow,
 * the first that can rests before its time: its next operation takes one round trip more, none waits for a descriptor.
 */
export class AwakeLinks {
  readonly #links = new Set<Awake>()
  readonly #most: number

  /** `descriptors`: how many files the agent may have open. */
  constructor(descriptors: number) {
    this.#most = Math.max(AT_LEAST, Math.floor((descriptors * SHARE) / DESCRIPTORS_OF_EACH))
  }

  /** It is in use now. */
  add(link: Awake): void {
    this.#links.delete(link)
    this.#links.add(link)
    if (this.#links.size <= this.#most) return
    for (const oldest of this.#links) if (oldest === link || oldest.rest()) return
  }

  delete(link: Awake): void {
    this.#links.delete(link)
  }
}
