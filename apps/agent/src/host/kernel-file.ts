import { readFileSync } from 'node:fs'

/** Synchronous, because these files are kernel memory: a trip through the thread pool takes longer. Empty where there is no such file. */
export const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
