/** How many brokers of the database serve clients, as the reaper's last round has counted them. */
export class LiveBrokers {
  #count = 1

  /** Ids of those heard of lately; this broker is one in any case. */
  counted(ids: readonly string[]): void {
    this.#count = Math.max(1, ids.length)
  }

  /**
   * This broker's part of a limit that holds for all of them [C-58]: their load balancer spreads clients evenly. While brokers come
   * and go all of them together let through up to one broker's part more or less, for as long as a broker's timeout.
   */
  readonly share = (): number => 1 / this.#count
}
