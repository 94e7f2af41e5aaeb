import { BoxofficeError, type ManagedProcess, type StartProcessRequest } from '@boxoffice/protocol'
import type { z } from 'zod'
import { newRun, processIdOf } from '../exec/managed-run.ts'
import { processTracker } from '../exec/tracker.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorExit } from '../supervisor/link.ts'
import { ProcessRecord } from '../supervisor/payloads.ts'
import { ManagedEntries } from './managed-entries.ts'
import type { LineHolder } from './managed-entry.ts'
import { describeEntry, type ManagedEntry, newEntry } from './managed-entry.ts'
import { loadManaged } from './managed-file.ts'
import { restartAfter, shortRuns } from './managed-restart.ts'
import { LOST_CLIENT_MS, letFlow, mayTake, type Seat, type SitOptions, takeSeat } from './managed-seat.ts'
import { closeStdin, spawnRun } from './managed-spawn.ts'

/** The managed processes of one sandbox (contract 4.5): named, long-lived, started again as they were asked to be. */
export interface ManagedProcesses {
  start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess>
  list(): Promise<ManagedProcess[]>
  /** Throws PROCESS_NOT_FOUND. */
  get(processId: string): Promise<ManagedProcess>
  /** Resolves when it has ended; one that is not there, or has ended, is fine. */
  stop(processId: string): Promise<void>
  /** The run that `sit` would give a seat at. Throws PROCESS_NOT_FOUND, PROCESS_NOT_RUNNING, ALREADY_ATTACHED [2-64, 2-66]. */
  mayTake(processId: string, options: SitOptions): string
  /** Throws the same. */
  sit(processId: string, holder: LineHolder, options: SitOptions): Seat
  /** Knows what an earlier run of the agent has started. */
  adopt(): void
}

const KILL_GRACE_MS = 5000

const managers = new WeakMap<Sandbox, ManagedProcesses>()

/** Those of a sandbox, made at the first call. */
export const managedProcesses = (sandbox: Sandbox): ManagedProcesses => {
  const known = managers.get(sandbox)
  if (known !== undefined) return known
  const made = new SandboxProcesses(sandbox)
  managers.set(sandbox, made)
  return made
}

class SandboxProcesses implements ManagedProcesses {
  readonly #sandbox: Sandbox
  readonly #entries: ManagedEntries
  /** The link whose ends are listened to: a stop and a wake make another one. */
  #heard: Sandbox['link'] | undefined

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
    this.#entries = new ManagedEntries(sandbox)
    sandbox.onEnd(() => {
      for (const entry of this.#entries.all()) this.#rest(entry)
    })
  }

  async start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess> {
    const { process_id: id, command, args, env, cwd, restart, max_restarts, replace } = request
    this.#entries.forgetOld()
    for (let entry = this.#entries.find(id); entry !== undefined && entry.state !== 'exited'; entry = this.#entries.find(id)) {
      if (!replace)
        throw new BoxofficeError(
          'PROCESS_CONFLICT',
          `process_id: ${JSON.stringify(id)} runs already; stop it, pass replace:true, or choose another id`,
        )
      await this.stop(id)
    }
    this.#entries.refuseTooMany()
    const entry = newEntry({
      ...{ process_id: id, command, args, env, cwd: cwd ?? null, restart, max_restarts },
      ...{ run: newRun(id), started_at: new Date().toISOString(), restarts: 0, short_runs: 0 },
      ...{ stopped: false, exited_at: null, exit: null },
    })
    this.#entries.add(entry)
    try {
      await this.#launch(entry, signal)
    } catch (error) {
      if (this.#entries.find(id) === entry) this.#entries.forget(id)
      entry.over.resolve()
      throw error
    }
    return describeEntry(this.#sandbox, entry)
  }

  list(): Promise<ManagedProcess[]> {
    this.#entries.forgetOld()
    return Promise.all(this.#entries.all().map((entry) => describeEntry(this.#sandbox, entry)))
  }

  async get(processId: string): Promise<ManagedProcess> {
    return describeEntry(this.#sandbox, this.#entries.known(processId))
  }

  async stop(processId: string): Promise<void> {
    const entry = this.#entries.find(processId)
    if (entry === undefined || entry.state === 'exited') return
    this.#entries.change(entry, { stopped: true })
    if (entry.state === 'waiting') return this.#settle(entry)
    await entry.launched.catch(() => {})
    if (!isUp(entry)) return
    const { run } = entry.file
    await closeStdin(this.#sandbox, entry)
    await this.#sandbox.link.call('kill', { id: run, cause: 'stopped', grace_ms: KILL_GRACE_MS }).catch((error: unknown) => {
      if (!isGone(error)) throw error
    })
    await entry.over.promise
  }

  mayTake(processId: string, options: SitOptions): string {
    return mayTake(this.#entries.known(processId), options)
  }

  sit(processId: string, holder: LineHolder, options: SitOptions): Seat {
    return takeSeat(this.#sandbox, this.#entries.known(processId), holder, options)
  }

  adopt(): void {
    this.#listen()
    for (const file of loadManaged(this.#sandbox.directory)) {
      const entry = newEntry(file)
      entry.position = undefined
      this.#entries.add(entry)
      entry.state = file.exited_at === null ? 'running' : 'exited'
      if (entry.state === 'running') continue
      entry.endedAt = performance.now() - Math.max(0, Date.now() - Date.parse(file.exited_at ?? ''))
      // It was waiting for its next start.
      if (restartAfter({ ...file, short_runs: Math.max(0, file.short_runs - 1) }) !== null) this.#again(entry)
      else entry.over.resolve()
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
      if (entry.state !== 'running') continue
      const { run } = entry.file
      this.#sandbox.link.call('get', { id: run }).then(
        (answer) => {
          const record = ProcessRecord.safeParse(answer).data
          if (record?.state === 'running' && !record.detach && entry.holder === undefined) letFlow(this.#sandbox, entry, LOST_CLIENT_MS)
          if (record?.state === 'running' && entry.file.stopped) void this.stop(entry.file.process_id).catch(() => {})
        },
        (error: unknown) => {
          if (isGone(error) && entry.file.run === run && entry.state === 'running') this.#onEnd(entry, null, 0)
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
    const { link } = this.#sandbox
    if (this.#heard === link) return
    this.#heard = link
    processTracker(this.#sandbox).onProcessEnd((run, exit, ageMs) => {
      const entry = this.#entries.find(processIdOf(run))
      if (entry?.file.run === run && entry.state !== 'exited' && entry.state !== 'waiting') this.#onEnd(entry, exit, ageMs)
    })
  }

  /** `undefined`: the sandbox went with it. `null`: nobody saw the end, and the sandbox is still there. */
  #onEnd(entry: ManagedEntry, exit: SupervisorExit | null | undefined, ageMs: number): void {
    clearTimeout(entry.timer)
    entry.endedAt = performance.now() - ageMs
    const wait = exit === undefined || this.#sandbox.lost !== undefined ? null : restartAfter({ ...entry.file, exit })
    this.#entries.change(entry, {
      exit: exit ?? null,
      exited_at: new Date(Date.now() - ageMs).toISOString(),
      short_runs: shortRuns({ ...entry.file, exit: exit ?? null }),
    })
    if (wait === null) return this.#settle(entry)
    this.#again(entry, wait)
  }

  #again(entry: ManagedEntry, wait = restartAfter(entry.file)): void {
    if (wait === null) return this.#settle(entry)
    entry.state = 'waiting'
    entry.release ??= this.#sandbox.activity.run()
    entry.timer = setTimeout(() => void this.#restart(entry), wait)
  }

  async #restart(entry: ManagedEntry): Promise<void> {
    const { process_id: id, restarts, short_runs } = entry.file
    entry.state = 'starting'
    entry.position = 0
    entry.holder = undefined
    entry.file = {
      ...entry.file,
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
      if (this.#entries.find(id) !== entry || entry.state !== 'starting') return
      entry.file = { ...entry.file, short_runs: short_runs + 1 }
      this.#onEnd(entry, this.#sandbox.lost === undefined ? null : undefined, 0)
    }
  }

  #settle(entry: ManagedEntry): void {
    this.#rest(entry)
    entry.state = 'exited'
    entry.over.resolve()
    this.#entries.forgetOld()
  }

  #rest(entry: ManagedEntry): void {
    clearTimeout(entry.timer)
    entry.release?.()
    entry.release = undefined
  }
}

/** Others may have changed it meanwhile. */
const isUp = ({ state }: ManagedEntry): boolean => state !== 'exited'

const isGone = (error: unknown): boolean =>
  error instanceof BoxofficeError && (error.code === 'EXEC_NOT_FOUND' || error.code === 'PROCESS_NOT_RUNNING')
