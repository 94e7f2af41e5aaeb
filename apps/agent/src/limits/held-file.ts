import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeInPlace } from '../data-dir/write-in-place.ts'

/** Ids of the sandboxes whose processes are stopped: a restart must not leave them so for ever. */
export interface HeldFile {
  save(ids: readonly string[]): void
}

const NAME = 'held.json'
const Ids = z.array(z.string())

/** The ids that an earlier run left, and the file, which is there from now on: a full disk has no room for a new one. */
export const openHeldFile = (dataDirectory: string, onError: (error: unknown) => void): HeldFile & { left: string[] } => {
  const path = join(dataDirectory, NAME)
  const save = (ids: readonly string[]): void => {
    try {
      writeInPlace(path, JSON.stringify(ids))
    } catch (error) {
      onError(error)
    }
  }
  const left = leftBy(path)
  save(left)
  return { left, save }
}

const leftBy = (path: string): string[] => {
  try {
    return Ids.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return []
  }
}
