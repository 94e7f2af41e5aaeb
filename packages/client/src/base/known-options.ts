import { BoxofficeError } from './errors.ts'

/** The names of all options of a call; the compiler sees that none is missing. */
export type OptionNames<T> = Readonly<Record<keyof T, true>>

/**
 * Refuses options that the call does not have: `{ timeout: 1 }` would run without a limit, and nobody would know. The compiler
 * says it for literals of TypeScript only. An option that is undefined was not given.
 */
export const refuseUnknown = <T extends object>(call: string, options: T, names: OptionNames<T>): void => {
  if (typeof options !== 'object' || options === null)
    throw new BoxofficeError('INVALID_REQUEST', `${call}: the options are an object, not ${JSON.stringify(options)}`)
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || Object.hasOwn(names, name)) continue
    const known = Object.keys(names)
    const near = nearest(name, known)
    const hint = near === undefined ? `it has ${known.join(', ')}` : `did you mean ${near}?`
    throw new BoxofficeError('INVALID_REQUEST', `${call}: there is no option ${JSON.stringify(name)}; ${hint}`)
  }
}

/** The name that was probably meant: one that contains the other, else one that differs in a letter or two. */
const nearest = (name: string, known: readonly string[]): string | undefined => {
  const wanted = plain(name)
  const within = known.find((other) => plain(other).startsWith(wanted) || wanted.startsWith(plain(other)))
  if (within !== undefined) return within
  const [best] = known.map((other) => ({ other, edits: editDistance(wanted, plain(other)) })).sort((a, b) => a.edits - b.edits)
  return best !== undefined && best.edits <= Math.max(2, wanted.length / 3) ? best.other : undefined
}

/** `stdin_base64`, `stdinBase64` and `stdin-base64` are one name to whoever writes it. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Levenshtein's: insertions, removals and exchanges of one letter. */
const editDistance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const exchanged = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(exchanged, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
