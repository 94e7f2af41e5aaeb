import { BoxofficeError, PROCESS_LIMITS } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { ManagedEntry } from './managed-entry.ts'
import { type ManagedRecord, removeRecord, saveRecord } from './managed-record.ts'

/** Which managed processes of a sandbox are known, in memory and in the agent's directory, and how many may be. */
export class ProcessRegistry {
  readonly #sandbox: Sandbox
  readonly #byId = new Map<string, ManagedEntry>()

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  all(): ManagedEntry[] {
    return [...this.#byId.values()]
  }

  find(processId: string): ManagedEntry | undefined {
    return this.#byId.get(processId)
  }

  /** Throws PROCESS_NOT_FOUND. */
  known(processId: string): ManagedEntry {
    this.forgetOld()
    const entry = this.#byId.get(processId)
    if (entry !== undefined) return entry
    throw new BoxofficeError(
      'PROCESS_NOT_FOUND',
      `There is no process ${JSON.stringify(processId)} in this sandbox; GET /processes lists those that run or ended lately`,
    )
  }

  add(entry: ManagedEntry): void {
    this.#byId.set(entry.record.process_id, entry)
  }

  save({ record }: ManagedEntry): void {
    saveRecord(this.#sandbox.directory, record)
  }

  change(entry: ManagedEntry, change: Partial<ManagedRecord>): void {
    entry.record = { ...entry.record, ...change }
    // The directory goes with the sandbox.
    if (this.#sandbox.lost === undefined) this.save(entry)
  }

  forget(processId: string): void {
    this.#byId.delete(processId)
    removeRecord(this.#sandbox.directory, processId)
  }

  /** Of those that have ended the last ones are known, and each for a while [2-35]. */
  forgetOld(): void {
    const ended = this.all()
      .flatMap(({ record, state }) => (state.name === 'exited' ? { id: record.process_id, endedAt: state.endedAt } : []))
      .sort((a, b) => a.endedAt - b.endedAt)
    const before = performance.now() - PROCESS_LIMITS.completedKeptSeconds * 1000
    const many = ended.length - PROCESS_LIMITS.completed
    ended.forEach(({ id, endedAt }, at) => {
      if (at < many || endedAt < before) this.forget(id)
    })
  }

  /** Throws RATE_LIMITED where as many run as may [2-35]. */
  refuseTooMany(): void {
    const running = this.all().filter(({ state }) => state.name !== 'exited').length
    if (running < PROCESS_LIMITS.running) return
    throw new BoxofficeError('RATE_LIMITED', `The sandbox runs ${running} managed processes, as many as it may; stop one first`, {
      retryAfter: 1,
      details: { limit: 'max_managed_processes', max_managed_processes: PROCESS_LIMITS.running },
    })
  }
}
