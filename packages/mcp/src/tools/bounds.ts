import { BoxofficeError } from '@boxoffice/protocol'

/** What one call of a tool takes and gives at most. Output of `exec` has the bounds of contract 4.2. */
export const BOUNDS = {
  /** Characters of a file, or of a process's output, that a model gets to read. */
  textCharacters: 32_000,
  /** Entries of `list_dir` and `glob`, matches of `grep`. */
  entries: 500,
  /** Bytes of a file that is written, uploaded or downloaded whole, before base64. */
  fileBytes: 10 * 1024 * 1024,
  /** Characters of base64 for as many bytes. */
  base64Characters: Math.ceil((10 * 1024 * 1024) / 3) * 4,
  /** Characters for the standard input of a process. */
  inputCharacters: 64 * 1024,
  /** Seconds that a call waits for the output of a process. */
  waitSeconds: 30,
  /** Seconds that a command may run for which a model waits. */
  execSeconds: 3600,
} as const

/** A text within the bound, and whether it had to be cut. No character is cut in half. */
export const boundedText = (text: string): { text: string; truncated: boolean } => {
  if (text.length <= BOUNDS.textCharacters) return { text, truncated: false }
  const splits = /[\uD800-\uDBFF]/.test(text.charAt(BOUNDS.textCharacters - 1))
  return { text: text.slice(0, BOUNDS.textCharacters - (splits ? 1 : 0)), truncated: true }
}

/** At most `BOUNDS.entries` of what comes; the rest is not asked for. */
export const boundedList = async <T>(source: AsyncIterable<T>): Promise<{ entries: T[]; truncated: boolean }> => {
  const entries: T[] = []
  for await (const entry of source) {
    if (entries.length === BOUNDS.entries) return { entries, truncated: true }
    entries.push(entry)
  }
  return { entries, truncated: false }
}

/** Lines for a model, which hears of a list that was cut. */
export const withNotice = (lines: string[], truncated: boolean): string[] => {
  if (truncated) return [...lines, `[cut after ${BOUNDS.entries} entries]`]
  return lines.length === 0 ? ['[nothing]'] : lines
}

/** Throws PAYLOAD_TOO_LARGE for a file that one call cannot hold. */
export const requireFileSize = (path: string, size: number): void => {
  if (size > BOUNDS.fileBytes)
    throw new BoxofficeError(
      'PAYLOAD_TOO_LARGE',
      `${path} has ${size} bytes, and a call takes at most ${BOUNDS.fileBytes}; use exec for a part of it`,
    )
}
