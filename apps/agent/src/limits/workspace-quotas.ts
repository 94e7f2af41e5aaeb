import type { Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { MiB } from '../host/space.ts'
import type { UploadLease } from '../http/upload-limit.ts'
import { workspaceUsage } from '../mounts/workspace-usage.ts'
import type { Activity } from '../sandbox/sandbox.ts'
import type { Writer } from './disk-guard.ts'
import { MOST_ENTRIES } from './growth.ts'
import type { Holds } from './holds.ts'

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
  freshUntil: number
  /** When it is counted again, or at least looked at. */
  dueAt: number
}

/** `endedAt`: undefined while it goes on. */
type Upload = { lease: UploadLease; endedAt: number | undefined }

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
  /** Those that may not have been counted. */
  readonly #uploads = new WeakMap<S, Set<Upload>>()
  readonly #counting = new WeakMap<S, Promise<Count>>()
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

  /** Bytes that may still be uploaded to it; undefined where it has no quota. It is counted before `wanted` bytes are said not to fit. */
  async roomIn(sandbox: S, wanted: number): Promise<number | undefined> {
    if (quotaOf(sandbox) === 0) return undefined
    const least = Math.max(1, wanted)
    const known = this.#counts.get(sandbox)
    const room = known === undefined || known.freshUntil < performance.now() ? -1 : this.#roomBeside(sandbox, known)
    if (room >= least) return room
    // A count that began earlier may have seen what is gone by now: it can say that the bytes fit, not that they do not.
    const underWay = this.#counting.get(sandbox)
    const earlier = underWay === undefined ? -1 : this.#roomBeside(sandbox, await underWay)
    return earlier >= least ? earlier : this.#roomBeside(sandbox, await this.#count(sandbox))
  }

  #roomBeside(sandbox: S, { bytes }: Count): number {
    const uploads = [...(this.#uploads.get(sandbox) ?? [])]
    return Math.max(0, quotaOf(sandbox) - bytes - uploads.reduce((sum, { lease }) => sum + lease.bytes, 0))
  }

  begin(sandbox: S, bytes: number): UploadLease {
    const uploads = this.#uploads.get(sandbox) ?? new Set()
    this.#uploads.set(sandbox, uploads)
    const upload: Upload = {
      lease: {
        bytes,
        [Symbol.dispose]: () => {
          upload.endedAt = performance.now()
        },
      },
      endedAt: undefined,
    }
    uploads.add(upload)
    return upload.lease
  }

  /** Returns how long until the next one, in milliseconds. */
  async #turn(): Promise<number> {
    const from = performance.now()
    const limited = this.#options.sandboxes().filter((sandbox) => quotaOf(sandbox) > 0)
    for (const sandbox of limited) {
      if (this.#closed) break
      await this.#lookAt(sandbox).catch((err: unknown) =>
        this.#options.log.warn({ err, sandbox_id: sandbox.id }, 'a workspace could not be counted'),
      )
    }
    if (this.#options.holds.size > 0) await this.#options.holds.keep()
    return Math.max(limited.length > 0 ? FASTEST_MS : SLOWEST_MS, (performance.now() - from) * SLOWER_THAN_TURN)
  }

  async #lookAt(sandbox: S): Promise<void> {
    const { holds } = this.#options
    const known = this.#counts.get(sandbox)
    const now = performance.now()
    if (known !== undefined && known.dueAt > now) return
    const held = holds.has(sandbox, 'workspace_quota')
    if (!held && !this.#uploads.has(sandbox) && !(await isBusy(sandbox))) {
      if (known !== undefined) known.dueAt = now + QUIET_MS
      return
    }
    const { bytes, entries } = await this.#count(sandbox)
    const over = bytes > quotaOf(sandbox) || entries > MOST_ENTRIES
    if (over && !held) await holds.hold(sandbox, 'workspace_quota', { taken: 0 })
    if (!over && held) await holds.release(sandbox, 'workspace_quota')
  }

  /** Once for any number of callers. */
  #count(sandbox: S): Promise<Count> {
    const underWay = this.#counting.get(sandbox)
    if (underWay !== undefined) return underWay
    const counted = this.#countNow(sandbox).finally(() => this.#counting.delete(sandbox))
    this.#counting.set(sandbox, counted)
    return counted
  }

  async #countNow(sandbox: S): Promise<Count> {
    const from = performance.now()
    const { bytes, entries } = await workspaceUsage(sandbox.workspaceDirectory, MOST_ENTRIES)
    const now = performance.now()
    const full = Math.min(1, bytes / quotaOf(sandbox))
    const pace = SLOWEST_MS - full * (SLOWEST_MS - FASTEST_MS)
    const freshUntil = now + Math.max(pace, (now - from) * SLOWER_THAN_COUNT)
    const count = { bytes, entries, freshUntil, dueAt: freshUntil }
    this.#counts.set(sandbox, count)
    this.#forgetUploads(sandbox, from)
    return count
  }

  /** Those that had ended when a count began are in it. */
  #forgetUploads(sandbox: S, countedFrom: number): void {
    const uploads = this.#uploads.get(sandbox)
    if (uploads === undefined) return
    for (const upload of uploads) if (upload.endedAt !== undefined && upload.endedAt <= countedFrom) uploads.delete(upload)
    if (uploads.size === 0) this.#uploads.delete(sandbox)
  }
}

/** In bytes; 0 for none. */
const quotaOf = ({ profile }: Limited): number => profile.workspace_quota_mb * MiB

const isBusy = async (sandbox: Limited): Promise<boolean> => {
  const { running, attached } = sandbox.activity.snapshot()
  return running > 0 || attached > 0 || ((await sandbox.inside())?.others.length ?? 0) > 0
}
