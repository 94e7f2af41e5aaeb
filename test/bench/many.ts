/** Runs `count` pieces of work, at most `atOnce` at the same time; their results in order. */
export const many = async <T>(count: number, atOnce: number, run: (index: number) => Promise<T>): Promise<T[]> => {
  const results: T[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) results[index] = await run(index)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return results
}
