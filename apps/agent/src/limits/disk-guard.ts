import { statSync } from 'node:fs'
import type { Logger } from 'pino'
import { floorsLeft, readSpace, type Space } from '../host/space.ts'
import { type Amount, enough, explains, type Growth, growthOf, leastOf, takersOf, type Use, useOf } from './growth.ts'
import type { Holds, Stoppable } from './holds.ts'

/** A sandbox as the guard sees it. */
export interface Writer extends Stoppable {
  /** On the host. */
  readonly workspaceDirectory: string
}

export type DiskGuardOptions<S extends Writer> = {
  /** One on each file system that sandboxes write to. */
  directories: () => string[]
  /** Those that run. */
  sandboxes: () => S[]
  holds: Holds<S>
  /** Ids of those that an earlier run of the agent held. */
  left: readonly string[]
  log: Logger
}

/** Holds those who fill a file system, well before nothing of it is left. */
export interface DiskGuard {
  start(): void
  close(): Promise<void>
}

/** Times the floor: here who writes is watched, and above it everybody may go on again. */
const ROOM = 2.25
/** Times the floor: where it still falls below this, stopping was not enough. */
const LAST = 0.5
const SHORTEST_MS = 50
const LONGEST_MS = 2000
/** No sandbox takes more in a millisecond. */
const BYTES_PER_MS = 2 * 1024 ** 2
const INODES_PER_MS = 200
/** Looks take at most this part of the time. */
const SLOWER_THAN_LOOK = 4
/** Compared is with at most so long ago; while the disk is low longer, so that a slow writer is found too. */
const WINDOW_MS = 5000
const LOW_WINDOW_MS = 60_000

type Snapshot<S> = { at: number; space: Space; uses: Map<S, Use> }
/** `deep`: workspaces are counted too, as what processes say of their writes did not explain the loss. */
type FileSystem<S> = {
  snapshot: Snapshot<S> | undefined
  /** What was free when sandboxes were last looked at: they are again when enough of that is lost. */
  seen: Space | undefined
  deep: boolean
  /** What was free when somebody was last held or killed. */
  mark: Space | undefined
}

/**
 * Far from the floor one `statfs` for each file system, the more seldom the farther. Near it the figures of sandboxes are taken too,
 * whenever enough was lost since the last time.
 */
export const createDiskGuard = <S extends Writer>({ directories, sandboxes, holds, left, log }: DiskGuardOptions<S>): DiskGuard => {
  const fileSystems = new Map<number, FileSystem<S>>()
  const orphans = new Set(left)
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> = Promise.resolve()
  let closed = false

  const measure = async (device: number, deep: boolean): Promise<Map<S, Use>> => {
    const uses = new Map<S, Use>()
    for (const sandbox of sandboxes()) {
      const inside = await sandbox.inside()
      if (inside === undefined) continue
      const written = deep && inside.others.length > 0 ? [sandbox.workspaceDirectory, inside.layer ?? []].flat() : []
      const directories = written.filter((directory) => deviceOf(directory) === device)
      uses.set(sandbox, await useOf(inside, device, directories))
    }
    return uses
  }

  /** Since the snapshot, which takes in what it did not know. */
  const growthsOf = (before: Map<S, Use>, now: Map<S, Use>): Map<S, Growth> => {
    const growths = new Map<S, Growth>()
    for (const [sandbox, use] of now) {
      const earlier = before.get(sandbox)
      if (earlier === undefined) before.set(sandbox, use)
      else if (earlier.kept === undefined) before.set(sandbox, { written: earlier.written, kept: use.kept })
      growths.set(sandbox, growthOf(earlier ?? use, use))
    }
    return growths
  }

  const lookAt = async (device: number, space: Space): Promise<void> => {
    const known = fileSystems.get(device)
    const times = floorsLeft(space)
    if (times >= ROOM) return void fileSystems.delete(device)
    const state: FileSystem<S> = known ?? { snapshot: undefined, seen: undefined, deep: false, mark: undefined }
    fileSystems.set(device, state)
    const snap = async (): Promise<void> => {
      state.snapshot = { at: performance.now(), space, uses: await measure(device, state.deep) }
    }
    const { snapshot } = state
    if (snapshot === undefined) return snap()
    const [lost, least] = [lossOf(snapshot.space, space), leastOf(space)]
    const low = times < 1
    const old = performance.now() - snapshot.at > (low ? LOW_WINDOW_MS : WINDOW_MS)
    if (!enough(lost, least)) return old ? snap() : undefined
    // Nobody was found for what was lost so far, as where a program of the host has taken it.
    if (state.seen !== undefined && !old && !enough(lossOf(state.seen, space), least)) {
      if (space.bytes > state.seen.bytes) state.seen = space
      return
    }
    state.seen = space
    const uses = await measure(device, state.deep)
    const growths = growthsOf(snapshot.uses, uses)
    if (!state.deep && !explains(lost, least, growths)) {
      state.deep = true
      return snap()
    }
    if (low) {
      const short = { bytes: space.bytes < space.floor.bytes, inodes: space.inodes < space.floor.inodes }
      const takers = takersOf({ lost, least, short }, growths)
      for (const taker of takers) await holds.hold(taker, 'disk_low', { taken: growths.get(taker)?.bytes ?? 0 })
      if (takers.length > 0) state.mark = space
      if (takers.length === 0 && !old) return
    } else if (!old) return
    state.snapshot = { at: performance.now(), space, uses }
  }

  const killWhereItFalls = async (device: number, space: Space): Promise<void> => {
    const state = fileSystems.get(device)
    if (state?.mark === undefined || floorsLeft(space) >= LAST) return
    if (!enough(lossOf(state.mark, space), leastOf(space))) return
    state.mark = space
    await holds.killGreatest()
  }

  const settleOrphans = async (near: boolean): Promise<void> => {
    for (const sandbox of orphans.size > 0 ? sandboxes() : []) {
      if (!orphans.delete(sandbox.id)) continue
      if (near) await holds.hold(sandbox, 'disk_low', { adopted: true })
      else await holds.continue(sandbox)
    }
  }

  const spaces = (): Map<number, Space> => {
    const found = new Map<number, Space>()
    for (const directory of directories()) {
      const device = deviceOf(directory)
      const space = device === undefined || found.has(device) ? undefined : readSpace(directory)
      if (device !== undefined && space !== undefined) found.set(device, space)
    }
    return found
  }

  /** Returns how long until the next one, in milliseconds. */
  const look = async (): Promise<number> => {
    const from = performance.now()
    const found = [...spaces()]
    const near = found.some(([, space]) => floorsLeft(space) < ROOM)
    await settleOrphans(near)
    for (const [device, space] of found) {
      await killWhereItFalls(device, space)
      await lookAt(device, space)
    }
    if (!near) await holds.releaseAll('disk_low')
    await holds.keep()
    const took = performance.now() - from
    const pace = near || holds.size > 0 ? SHORTEST_MS : Math.min(LONGEST_MS, ...found.map(([, space]) => timeTo(space)))
    return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, pace, took * SLOWER_THAN_LOOK))
  }

  const turn = (): void => {
    looking = look()
      .catch((err: unknown) => {
        log.error({ err }, 'the disk could not be looked after')
        return LONGEST_MS
      })
      .then((wait) => {
        if (!closed) timer = setTimeout(turn, wait).unref()
      })
  }

  return {
    start: turn,
    async close() {
      closed = true
      clearTimeout(timer)
      await looking
      await holds.close()
    },
  }
}

/** Milliseconds within which nobody gets to where writers are watched. */
const timeTo = ({ bytes, inodes, floor }: Space): number =>
  Math.min((bytes - ROOM * floor.bytes) / BYTES_PER_MS, (inodes - ROOM * floor.inodes) / INODES_PER_MS)

const lossOf = (before: Space, now: Space): Amount => ({
  bytes: Math.max(0, before.bytes - now.bytes),
  // None where there is no number of inodes.
  inodes: Math.max(0, before.inodes - now.inodes) || 0,
})

/** Undefined where there is no such directory, or where it cannot be seen. */
const deviceOf = (directory: string): number | undefined => {
  try {
    return statSync(directory).dev
  } catch {
    return undefined
  }
}
