import type { Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { workspaceUsage } from '../mounts/workspace-usage.ts'
import type { Activity } from '../sandbox/sandbox.ts'
import type { Writer } from './disk-guard.ts'
import { MOST_ENTRIES } from './growth.ts'
import type { Holds } from './holds.ts'
import { MiB } from './space.ts'

/** A sandbox whose workspace may have a quota. */
export interface Limited extends Writer {
  readonly profile: Profile
  readonly activity: Pick<Activity, 'snapshot'>
}

export type WorkspaceQuotasOptions<S extends Limited> = {
  /** Those that run. */
  sandboxes: () => S[]
  holds: Holds<S>
  log: Logger
}

/** What is known of one workspace. */
type Count = {
  bytes: number
  entries: number
  /** Uploaded since it was counted. */
  uploaded: number
  /** When it is counted again, or at least looked at. */
  dueAt: number
}

const FASTEST_MS = 200
const SLOWEST_MS = 2000
/** Where nothing is asked of a sandbox, something may still run that was left there. */
const QUIET_MS = 5000
/** Of one workspace: it is counted for at most a tenth of the time. */
const SLOWER_THAN_COUNT = 10
/** Of all: counting takes at most a quarter of the time. */
const SLOWER_THAN_TURN = 3

/**
 * Holds those whose workspace is over `workspace_quota_mb` until it is not any more. Counted are workspaces with a quota in which
 * something runs or to which something is uploaded, the more often the fuller they are.
 */
export class WorkspaceQuotas<S extends Limited> {
  readonly #options: WorkspaceQuotasOptions<S>
  readonly #counts = new WeakMap<S, Count>()
  #timer: NodeJS.Timeout | undefined
  #turning: Promise<void> = Promise.resolve()
  #closed = false

  constructor(options: WorkspaceQuotasOptions<S>) {
    this.#options = options
  }

  start(): void {
    this.#turning = this.#turn()
      .catch((err: unknown) => {
        this.#options.log.error({ err }, 'workspaces could not be counted')
        return SLOWEST_MS
      })
      .then((wait) => {
        if (!this.#closed) this.#timer = setTimeout(() => this.start(), wait).unref()
      })
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#turning
  }

  /** Bytes that may still be uploaded to it; undefined where it has no quota. */
  async roomIn(sandbox: S): Promise<number | undefined> {
    const quota = quotaOf(sandbox)
    if (quota === 0) return undefined
    const { bytes, uploaded } = this.#counts.get(sandbox) ?? (await this.#count(sandbox))
    return Math.max(0, quota - bytes - uploaded)
  }

  /** So much is about to be uploaded, of which nothing has been counted. */
  expect(sandbox: S, bytes: number): void {
    const count = this.#counts.get(sandbox)
    if (count === undefined) return
    count.uploaded += bytes
    count.dueAt = 0
  }

  /** Returns how long until the next one, in milliseconds. */
  async #turn(): Promise<number> {
    const from = performance.now()
    const limited = this.#options.sandboxes().filter((sandbox) => quotaOf(sandbox) > 0)
    for (const sandbox of limited) if (!this.#closed) await this.#lookAt(sandbox)
    if (this.#options.holds.size > 0) await this.#options.holds.keep()
    return Math.max(limited.length > 0 ? FASTEST_MS : SLOWEST_MS, (performance.now() - from) * SLOWER_THAN_TURN)
  }

  async #lookAt(sandbox: S): Promise<void> {
    const { holds } = this.#options
    const known = this.#counts.get(sandbox)
    const now = performance.now()
    if (known !== undefined && known.dueAt > now) return
    const held = holds.has(sandbox, 'workspace_quota')
    if (!held && !(known !== undefined && known.uploaded > 0) && !(await isBusy(sandbox))) {
      if (known !== undefined) known.dueAt = now + QUIET_MS
      return
    }
    const { bytes, entries } = await this.#count(sandbox)
    const over = bytes > quotaOf(sandbox) || entries > MOST_ENTRIES
    if (over && !held) await holds.hold(sandbox, 'workspace_quota', { taken: 0 })
    if (!over && held) await holds.release(sandbox, 'workspace_quota')
  }

  async #count(sandbox: S): Promise<Count> {
    const before = this.#counts.get(sandbox)
    if (before !== undefined) before.uploaded = 0
    const from = performance.now()
    const { bytes, entries } = await workspaceUsage(sandbox.workspaceDirectory, MOST_ENTRIES)
    const now = performance.now()
    const full = Math.min(1, bytes / quotaOf(sandbox))
    const pace = SLOWEST_MS - full * (SLOWEST_MS - FASTEST_MS)
    // What was announced meanwhile may not have been counted.
    const uploaded = before?.uploaded ?? 0
    const count = { bytes, entries, uploaded, dueAt: now + Math.max(pace, (now - from) * SLOWER_THAN_COUNT) }
    this.#counts.set(sandbox, count)
    return count
  }
}

/** In bytes; 0 for none. */
const quotaOf = ({ profile }: Limited): number => profile.workspace_quota_mb * MiB

const isBusy = async (sandbox: Limited): Promise<boolean> => {
  const { running, attached } = sandbox.activity.snapshot()
  return running > 0 || attached > 0 || ((await sandbox.inside())?.others.length ?? 0) > 0
}
