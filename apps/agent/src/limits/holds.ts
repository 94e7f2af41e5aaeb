import { SerialQueue } from '@boxoffice/kit/serial-queue'
import type { Logger } from 'pino'
import { signalPid, stateOfPid } from '../host/process-table.ts'
import type { HoldReason } from '../sandbox/held.ts'
import type { Inside } from '../sandbox/provider.ts'
import type { HeldFile } from './held-file.ts'

/** A sandbox whose processes can be stopped. */
export interface Stoppable {
  readonly id: string
  held: HoldReason | undefined
  inside(): Promise<Inside | undefined>
  onEnd(listener: () => void): () => void
}

type Hold<S> = {
  sandbox: S
  reasons: Set<HoldReason>
  /** What it took when it was held, in bytes. */
  taken: number
  /** Its processes can be seen. */
  seen: boolean
  /** Stopped by somebody else before; they stay so. */
  stoppedBefore: ReadonlySet<number>
  emptySince: number | undefined
  off: () => void
}

export type HoldsOptions<S> = { file: HeldFile; isThere: (sandbox: S) => boolean; log: Logger }

/** New processes of a tree that forks while it is stopped turn up in the next pass. */
const PASSES = 20
/** A hold without processes ends so long after the last of them. */
const EMPTY_MS = 10_000

/**
 * The sandboxes whose processes are stopped for what they write. PID 1 of each goes on: it deletes files, and tells of ends. One
 * operation at a time, so that nothing is stopped after it has been let go.
 */
export class Holds<S extends Stoppable> {
  readonly #held = new Map<S, Hold<S>>()
  readonly #file: HeldFile
  readonly #isThere: (sandbox: S) => boolean
  readonly #log: Logger
  readonly #queue = new SerialQueue()

  /** `isThere`: not one that has ended, which tells nobody of its end any more. */
  constructor({ file, isThere, log }: HoldsOptions<S>) {
    this.#file = file
    this.#isThere = isThere
    this.#log = log
  }

  get size(): number {
    return this.#held.size
  }

  has(sandbox: S, reason: HoldReason): boolean {
    return this.#held.get(sandbox)?.reasons.has(reason) ?? false
  }

  /** Stops what runs in it. `taken`: bytes, for who is killed first. `adopted`: an earlier run of the agent held it, and stopped the rest. */
  hold(sandbox: S, reason: HoldReason, { taken = 0, adopted = false } = {}): Promise<void> {
    return this.#queue.run(async () => {
      const known = this.#held.get(sandbox)
      if (known !== undefined) {
        known.taken += taken
        known.reasons.add(reason)
        return
      }
      const inside = await sandbox.inside()
      const others = inside?.others ?? []
      if (!this.#isThere(sandbox)) return
      const stoppedBefore = new Set(adopted ? [] : others.filter((pid) => stateOfPid(pid) === 'stopped'))
      const off = sandbox.onEnd(() => this.#drop(sandbox))
      this.#held.set(sandbox, {
        sandbox,
        reasons: new Set([reason]),
        taken,
        seen: inside !== undefined,
        stoppedBefore,
        emptySince: undefined,
        off,
      })
      sandbox.held = reason
      // First what a restart must know.
      this.#save()
      const processes = await stopAll(sandbox)
      this.#log.warn({ sandbox_id: sandbox.id, reason, taken_bytes: taken, processes }, 'a sandbox is on hold: its processes are stopped')
    })
  }

  /** Lets it go on, if nothing else holds it. */
  release(sandbox: S, reason: HoldReason): Promise<void> {
    return this.#queue.run(async () => {
      const hold = this.#held.get(sandbox)
      if (hold !== undefined) await this.#end(hold, reason, 'there is room again')
    })
  }

  async releaseAll(reason: HoldReason): Promise<void> {
    for (const sandbox of [...this.#held.keys()]) await this.release(sandbox, reason)
  }

  /** Stops what has begun to run meanwhile, and ends the holds that have nothing to hold. */
  keep(): Promise<void> {
    return this.#queue.run(async () => {
      for (const hold of [...this.#held.values()]) {
        if ((await stopAll(hold.sandbox)) > 0) hold.emptySince = undefined
        else hold.emptySince ??= performance.now()
        if (hold.emptySince !== undefined && performance.now() - hold.emptySince > EMPTY_MS)
          await this.#end(hold, 'disk_low', 'none of its processes is left')
      }
    })
  }

  /** Kills what runs in the one that took most. */
  killGreatest(): Promise<void> {
    return this.#queue.run(async () => {
      const [greatest] = [...this.#held.values()].sort((a, b) => b.taken - a.taken)
      if (greatest === undefined) return
      const { sandbox, taken } = greatest
      const others = (await sandbox.inside())?.others ?? []
      for (const pid of others) signalPid(pid, 'SIGKILL')
      this.#log.warn(
        { sandbox_id: sandbox.id, taken_bytes: taken, processes: others.length },
        'the disk goes on filling: processes are killed',
      )
    })
  }

  /** For a sandbox that an earlier run of the agent held: lets go of what that one stopped. */
  continue(sandbox: S): Promise<void> {
    return this.#queue.run(async () => {
      if (!this.#held.has(sandbox)) await continueAll(sandbox, new Set())
    })
  }

  /** After what is under way. What is stopped stays so: the next run of the agent holds it, or lets it go. */
  async close(): Promise<void> {
    await this.#queue.idle()
  }

  async #end(hold: Hold<S>, reason: HoldReason, why: string): Promise<void> {
    const { sandbox, reasons } = hold
    if (!reasons.has(reason)) return
    // While it sleeps nothing can be let go, and nobody would do it later.
    if (reasons.size === 1 && hold.seen && (await sandbox.inside()) === undefined) return
    reasons.delete(reason)
    const [other] = reasons
    if (other !== undefined) {
      sandbox.held = other
      return
    }
    this.#drop(sandbox)
    await continueAll(sandbox, hold.stoppedBefore)
    this.#save()
    this.#log.info({ sandbox_id: sandbox.id }, `a sandbox is on hold no more: ${why}`)
  }

  #drop(sandbox: S): void {
    const hold = this.#held.get(sandbox)
    if (hold === undefined) return
    this.#held.delete(sandbox)
    sandbox.held = undefined
    hold.off()
  }

  #save(): void {
    this.#file.save([...this.#held.keys()].map(({ id }) => id))
  }
}

/** Resolves with how many there are, once none runs or it has been tried often enough. */
const stopAll = async (sandbox: Stoppable): Promise<number> => {
  let alive = 0
  for (let pass = 0; pass < PASSES; pass++) {
    const others = (await sandbox.inside())?.others ?? []
    let running = 0
    alive = 0
    for (const pid of others) {
      const state = stateOfPid(pid)
      if (state !== 'gone') alive++
      if (state !== 'running') continue
      running++
      signalPid(pid, 'SIGSTOP')
    }
    if (running === 0) break
  }
  return alive
}

/**
 * Also those that run: on a busy machine a process stops only when it next has the processor, and a SIGSTOP that waits for it until
 * then would stop it for good. SIGCONT takes it back.
 */
const continueAll = async (sandbox: Stoppable, except: ReadonlySet<number>): Promise<void> => {
  for (const pid of (await sandbox.inside())?.others ?? []) if (!except.has(pid)) signalPid(pid, 'SIGCONT')
}
