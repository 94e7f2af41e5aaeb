export type Backoff = {
  /** After the first failure, in milliseconds. */
  firstMs: number
  /** However many failures there have been. */
  mostMs: number
}

/**
 * The wait in milliseconds after `failures` failures (1 or more): it doubles from `firstMs` to `mostMs`, and a random part of up to a
 * half is taken off, so that those who failed together do not come back together. `random` gives 0 to 1.
 */
export const backoffMs = (failures: number, { firstMs, mostMs }: Backoff, random: () => number = Math.random): number =>
  Math.min(mostMs, firstMs * 2 ** (failures - 1)) * (1 - random() / 2)
