import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'

/** Above everything that distributions, systemd and subordinate ranges use, and below 2^31, which some programs take for negative. */
const BASE = 2_000_000_000
const PER_BLOCK = 65_536

/** Who owns what: each sandbox of a root agent has a host uid (and an equal gid) that no other one shares. */
export interface Uids {
  allot(): { uid: number; gid: number }
  /** Keeps one that is found in use, as the owner of a workspace that stayed. */
  claim(uid: number): void
  free(uid: number): void
}

/** `block`: of this agent alone (`claimUidBlock`). `sameUser`: the agent's own for each of them, also where it is root. */
export const createUids = (block: number, sameUser = false): Uids => {
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  if (own.uid !== 0 || sameUser) return { allot: () => own, claim: () => {}, free: () => {} }

  const first = BASE + block * PER_BLOCK
  const taken = new Set<number>()
  let next = 0
  return {
    allot() {
      for (let tried = 0; tried < PER_BLOCK; tried++) {
        // In turn, so that a uid rests as long as possible before it means somebody else.
        const uid = first + next
        next = (next + 1) % PER_BLOCK
        if (taken.has(uid)) continue
        taken.add(uid)
        return { uid, gid: uid }
      }
      throw new BoxofficeError('QUOTA_EXCEEDED', `all ${PER_BLOCK} user ids of this agent are in use`)
    },
    claim: (uid) => void taken.add(uid),
    free: (uid) => void taken.delete(uid),
  }
}

/** Claims the owners of all workspaces that are there. */
export const claimOwners = async (uids: Uids, workspaces: string): Promise<void> => {
  const owners = await Promise.all((await readdir(workspaces)).map((name) => stat(join(workspaces, name)).catch(() => undefined)))
  for (const owner of owners) if (owner !== undefined) uids.claim(owner.uid)
}
