/** The middle of a list; the mean of the two middle ones for an even count. */
export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle]
  if (upper === undefined) return Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

export const p99 = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] ?? Number.NaN

/** Times each of `count` runs one after another; milliseconds. */
export const timeEach = async (count: number, run: (index: number) => Promise<unknown>): Promise<number[]> => {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const start = performance.now()
    await run(i)
    times.push(performance.now() - start)
  }
  return times
}

export type Comparison = { ours: number; theirs: number; ratio: number }

/**
 * Five blocks of each, in turn, so that a drift of the machine's speed hits both. Each block gives one figure; the result
 * holds the medians of the figures and the median of the ratios ours/theirs, block by block.
 */
export const inTurn = async (ours: () => Promise<number>, theirs: () => Promise<number>, blocks = 5): Promise<Comparison> => {
  const a: number[] = []
  const b: number[] = []
  for (let i = 0; i < blocks; i++) {
    a.push(await ours())
    b.push(await theirs())
  }
  return { ours: median(a), theirs: median(b), ratio: median(a.map((value, i) => value / (b[i] ?? Number.NaN))) }
}
