/** The same values in a random order. */
export function shuffled<T>(values: readonly T[]): T[] {
  const all = [...values]
  for (let left = all.length - 1; left > 0; left--) {
    const at = Math.floor(Math.random() * (left + 1))
    const [a, b] = [all[left] as T, all[at] as T]
    all[left] = b
    all[at] = a
  }
  return all
}
