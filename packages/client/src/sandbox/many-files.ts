import { BoxofficeError } from '../base/errors.ts'

/** How one file of many fared: `ok` tells `value` from `error`. */
export type FileOutcome<T> = { path: string; ok: true; value: T } | { path: string; ok: false; error: BoxofficeError }

/** Files by path, or pairs of path and content where paths come from a program. */
export type ManyFiles<T> = Readonly<Record<string, T>> | Iterable<readonly [path: string, content: T]>

/** A tenant may have many sandboxes, and a sandbox other clients: one call takes no more requests at once. */
const AT_ONCE = 8

/** Does `work` for each entry, some at a time; one that fails does not end the others. Outcomes have the order of the entries. Rejects with what is no `BoxofficeError`: an abort. */
export const eachFile = async <T, R>(
  files: readonly (readonly [path: string, content: T])[],
  work: (path: string, content: T) => Promise<R>,
): Promise<FileOutcome<R>[]> => {
  const outcomes = new Array<FileOutcome<R>>(files.length)
  const queue = files.entries()
  const next = async (): Promise<void> => {
    for (const [at, [path, content]] of queue) outcomes[at] = await outcomeOf(path, () => work(path, content))
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, files.length) }, next))
  return outcomes
}

export const entriesOf = <T>(files: ManyFiles<T>): (readonly [path: string, content: T])[] =>
  isIterable(files) ? [...files] : Object.entries(files)

const isIterable = <T>(files: ManyFiles<T>): files is Iterable<readonly [path: string, content: T]> => Symbol.iterator in files

const outcomeOf = async <R>(path: string, work: () => Promise<R>): Promise<FileOutcome<R>> => {
  try {
    return { path, ok: true, value: await work() }
  } catch (error) {
    if (!(error instanceof BoxofficeError)) throw error
    return { path, ok: false, error }
  }
}
