import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Owner } from '../data-dir/layout.ts'

/** As whom a sandbox runs whose workspace is that directory: its owner, unless that is root (contract 9). */
export const hostOwner = async (directory: string): Promise<Owner | undefined> => {
  const { uid, gid } = await stat(directory)
  // Nor in root's group, which may read a good deal.
  return uid === 0 ? undefined : { uid, gid: gid === 0 ? uid : gid }
}

type Bits = 'write' | 'search'
const BITS: Record<Bits, readonly [owner: number, group: number, other: number]> = {
  write: [0o300, 0o030, 0o003],
  search: [0o100, 0o010, 0o001],
}

const may = async (directory: string, { uid, gid }: Owner, bits: Bits): Promise<boolean> => {
  const has = await stat(directory)
  const [owner, group, other] = BITS[bits]
  const needed = has.uid === uid ? owner : has.gid === gid ? group : other
  return (has.mode & needed) === needed
}

/** A directory that is to be written must be writable by who the sandbox runs as; else every write in it would fail, unexplained. */
export const requireWritable = async (directory: string, as: Owner, field: string): Promise<void> => {
  if (await may(directory, as, 'write')) return
  const { uid } = await stat(directory)
  throw new BoxofficeError(
    'INVALID_REQUEST',
    `${field}: ${directory} belongs to ${uid === 0 ? 'root (uid 0)' : `uid ${uid}`}, and the sandbox runs as uid ${as.uid}, which cannot write there; give it to another owner, or mount it with mode "ro"`,
    { details: { field, owner: uid, uid: as.uid } },
  )
}

/** The first directory on the way that this user cannot go through. */
export const closedOnTheWay = async (path: string, as: Owner): Promise<string | undefined> => {
  for (let directory = dirname(path); ; directory = dirname(directory)) {
    if (!(await may(directory, as, 'search'))) return directory
    if (directory === dirname(directory)) return undefined
  }
}
