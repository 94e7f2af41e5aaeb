import { BoxofficeError, type ManagedProcess, type StartProcessRequest } from '@boxoffice/protocol'
import type { z } from 'zod'
import { newRun, processIdOf } from '../exec/managed-run.ts'
import type { AttachLease, AttachOptions, LeaseHolder, ManagedProcesses } from '../sandbox/managed-processes.ts'
import type { ProcessTracker } from '../sandbox/process-tracker.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorExit } from '../supervisor/link.ts'
import { ProcessRecord } from '../supervisor/payloads.ts'
import { attachable, LOST_CLIENT_MS, letFlow, takeLease } from './attach-lease.ts'
import { describeEntry, ManagedEntry } from './managed-entry.ts'
import { loadRecords, type ManagedRecord } from './managed-record.ts'
import { ProcessRegistry } from './registry.ts'
import { restartAfter, shortRuns } from './restart-policy.ts'
import { endedState, type RunState } from './run-state.ts'
import { closeStdin, spawnRun } from './spawn-run.ts'

const KILL_GRACE_MS = 5000

/** The managed processes of a sandbox, kept in its directory. */
export const createManagedProcesses = (sandbox: Sandbox): ManagedProcesses => new SandboxProcesses(sandbox)

class SandboxProcesses implements ManagedProcesses {
  readonly #sandbox: Sandbox
  readonly #entries: ProcessRegistry
  /** The tracker whose ends are listened to: a stop and a wake make another one. */
  #tracker: ProcessTracker | undefined

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
    this.#entries = new ProcessRegistry(sandbox)
    sandbox.onEnd(() => {
      for (const entry of this.#entries.all()) this.#rest(entry)
    })
  }

  async start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess> {
    const { process_id: id, command, args, env, cwd, restart, max_restarts, replace } = request
    this.#entries.forgetOld()
    for (let entry = this.#entries.find(id); entry !== undefined && entry.state.name !== 'exited'; entry = this.#entries.find(id)) {
      if (!replace)
        throw new BoxofficeError(
          'PROCESS_CONFLICT',
          `process_id: ${JSON.stringify(id)} runs already; stop it, pass replace:true, or choose another id`,
        )
      await this.stop(id)
    }
    this.#entries.refuseTooMany()
    const record: ManagedRecord = {
      ...{ process_id: id, command, args, env, cwd: cwd ?? null, restart, max_restarts },
      ...{ run: newRun(id), started_at: new Date().toISOString(), restarts: 0, short_runs: 0 },
      ...{ stopped: false, exited_at: null, exit: null },
    }
    const entry = new ManagedEntry(record, { name: 'starting' }, 0)
    this.#entries.add(entry)
    try {
      await this.#launch(entry, signal)
    } catch (error) {
      if (this.#entries.find(id) === entry) this.#entries.forget(id)
      entry.ended.resolve()
      throw error
    }
    return describeEntry(this.#sandbox, entry)
  }

  list(options?: { asleep: boolean }): Promise<ManagedProcess[]> {
    this.#entries.forgetOld()
    return Promise.all(this.#entries.all().map((entry) => describeEntry(this.#sandbox, entry, options)))
  }

  async get(processId: string): Promise<ManagedProcess> {
    return describeEntry(this.#sandbox, this.#entries.known(processId))
  }

  async stop(processId: string): Promise<void> {
    const entry = this.#entries.find(processId)
    if (entry === undefined || entry.state.name === 'exited') return
    this.#entries.change(entry, { stopped: true })
    if (entry.state.name === 'waiting') {
      entry.apply({ type: 'stopped' })
      return this.#settle(entry)
    }
    await entry.launched.catch(() => {})
    if (hasExited(entry)) return
    const { run } = entry.record
    await closeStdin(this.#sandbox, entry)
    await this.#sandbox.link.call('kill', { id: run, cause: 'stopped', grace_ms: KILL_GRACE_MS }).catch((error: unknown) => {
      if (!isGone(error)) throw error
    })
    await entry.ended.promise
  }

  attachable(processId: string, options: AttachOptions): string {
    return attachable(this.#entries.known(processId), options)
  }

  attach(processId: string, holder: LeaseHolder, options: AttachOptions): AttachLease {
    return takeLease(this.#sandbox, this.#entries.known(processId), holder, options)
  }

  adopt(): void {
    this.#listen()
    for (const record of loadRecords(this.#sandbox.directory)) {
      const entry = new ManagedEntry(record, adoptedState(record), undefined)
      this.#entries.add(entry)
      if (entry.state.name === 'waiting') this.#wait(entry, entry.state.restartInMs)
      else if (entry.state.name === 'exited') entry.ended.resolve()
    }
    const off = this.#sandbox.link.onConnection((connected) => {
      if (!connected) return
      off()
      this.#recognise()
    })
    if (this.#sandbox.link.connected) {
      off()
      this.#recognise()
    }
  }

  /** Those that are said to run: the supervisor tells of their ends by itself, unless it knows them no more. */
  #recognise(): void {
    for (const entry of this.#entries.all()) {
      if (entry.state.name !== 'running') continue
      const { run } = entry.record
      this.#sandbox.link.call('get', { id: run }).then(
        (answer) => {
          const record = ProcessRecord.safeParse(answer).data
          if (record?.state === 'running' && !record.detach && entry.holder === undefined) letFlow(this.#sandbox, entry, LOST_CLIENT_MS)
          if (record?.state === 'running' && entry.record.stopped) void this.stop(entry.record.process_id).catch(() => {})
        },
        (error: unknown) => {
          if (isGone(error) && entry.record.run === run && entry.state.name === 'running') this.#onEnd(entry, null, 0)
        },
      )
    }
  }

  #launch(entry: ManagedEntry, signal: AbortSignal): Promise<void> {
    entry.launched = this.#spawn(entry, signal)
    return entry.launched
  }

  async #spawn(entry: ManagedEntry, signal: AbortSignal): Promise<void> {
    this.#listen()
    this.#entries.save(entry)
    await spawnRun(this.#sandbox, entry, signal)
  }

  #listen(): void {
    const { tracker } = this.#sandbox
    if (this.#tracker === tracker) return
    this.#tracker = tracker
    tracker.onProcessEnd((run, exit, ageMs) => {
      const entry = this.#entries.find(processIdOf(run))
      if (entry?.record.run === run && (entry.state.name === 'starting' || entry.state.name === 'running')) this.#onEnd(entry, exit, ageMs)
    })
  }

  /** `undefined`: the sandbox went with it. `null`: nobody saw the end, and the sandbox is still there. */
  #onEnd(entry: ManagedEntry, exit: SupervisorExit | null | undefined, ageMs: number): void {
    clearTimeout(entry.timer)
    const restartInMs = exit === undefined || this.#sandbox.lost !== undefined ? null : restartAfter({ ...entry.record, exit })
    this.#entries.change(entry, {
      exit: exit ?? null,
      exited_at: new Date(Date.now() - ageMs).toISOString(),
      short_runs: shortRuns({ ...entry.record, exit: exit ?? null }),
    })
    entry.apply({ type: 'ended', at: performance.now() - ageMs, restartInMs })
    if (restartInMs === null) this.#settle(entry)
    else this.#wait(entry, restartInMs)
  }

  #wait(entry: ManagedEntry, ms: number): void {
    entry.release ??= this.#sandbox.activity.run()
    entry.timer = setTimeout(() => void this.#restart(entry), ms)
  }

  async #restart(entry: ManagedEntry): Promise<void> {
    const { process_id: id, restarts, short_runs } = entry.record
    entry.apply({ type: 'restarting' })
    entry.position = 0
    entry.holder = undefined
    entry.record = {
      ...entry.record,
      run: newRun(id),
      restarts: restarts + 1,
      started_at: new Date().toISOString(),
      exited_at: null,
      exit: null,
    }
    try {
      await this.#launch(entry, AbortSignal.timeout(10_000))
      entry.release?.()
      entry.release = undefined
    } catch {
      // The sandbox did not answer. If it is gone, `onEnd` has said so; else it is tried again like a run that failed.
      if (this.#entries.find(id) !== entry || entry.state.name !== 'starting') return
      entry.record = { ...entry.record, short_runs: short_runs + 1 }
      this.#onEnd(entry, this.#sandbox.lost === undefined ? null : undefined, 0)
    }
  }

  /** It has exited, and is not started again. */
  #settle(entry: ManagedEntry): void {
    this.#rest(entry)
    entry.ended.resolve()
    this.#entries.forgetOld()
  }

  #rest(entry: ManagedEntry): void {
    clearTimeout(entry.timer)
    entry.release?.()
    entry.release = undefined
  }
}

/** Others may have changed it meanwhile. */
const hasExited = ({ state }: ManagedEntry): boolean => state.name === 'exited'

/** Where an earlier run of the agent left it: one that waited for its next start waits again. */
const adoptedState = (record: ManagedRecord): RunState => {
  if (record.exited_at === null) return { name: 'running' }
  const endedAt = performance.now() - Math.max(0, Date.now() - Date.parse(record.exited_at))
  return endedState(endedAt, restartAfter(record))
}

const isGone = (error: unknown): boolean =>
  error instanceof BoxofficeError && (error.code === 'EXEC_NOT_FOUND' || error.code === 'PROCESS_NOT_RUNNING')
