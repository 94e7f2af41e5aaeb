import { BoxofficeError, type ManagedProcess, PROCESS_LIMITS, type StartProcessRequest } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { SupervisorExit } from '../supervisor/link.ts'
import { ProcessRecord } from '../supervisor/payloads.ts'
import { toExitFields } from './exit.ts'
import { loadManaged, type ManagedFile, removeManaged, saveManaged } from './managed-file.ts'
import { restartAfter, shortRuns } from './managed-restart.ts'
import { isRun, newRun, processIdOf } from './managed-run.ts'
import { ProcessStream } from './process.ts'
import type { Sandbox } from './sandbox.ts'
import { managedStart } from './start.ts'
import { stderrPreview } from './stderr-preview.ts'
import { processTracker } from './tracker.ts'

/** The socket that has a process's lines. */
export interface LineHolder {
  /** Another one has them now. */
  takenOver(): void
}

/** A socket's hold on one run; one at a time. */
export interface Seat {
  readonly processId: string
  readonly run: string
  /** Where a client goes on that does not say: the first line that nobody got; undefined where that is not known any more. */
  position: number | undefined
  /** What an earlier socket wrote has reached the process. */
  readonly before: Promise<void>
  /** `written` resolves when the process has what this one wrote. `lost`: its client may be back in a moment. */
  leave(end: { written: Promise<void>; lost: boolean }): void
}

export type SitOptions = {
  takeover: boolean
  /** Only this one. */
  run: string | undefined
  /** Its client goes on where it was: what is left of `run` is for it, also when that has ended meanwhile. */
  resumes: boolean
}

/** The managed processes of one sandbox (contract 4.5): named, long-lived, started again as they were asked to be. */
export interface ManagedProcesses {
  start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess>
  list(): Promise<ManagedProcess[]>
  /** Throws PROCESS_NOT_FOUND. */
  get(processId: string): Promise<ManagedProcess>
  /** Resolves when it has ended; one that is not there, or has ended, is fine. */
  stop(processId: string): Promise<void>
  /** Throws PROCESS_NOT_FOUND, PROCESS_NOT_RUNNING, ALREADY_ATTACHED [2-64, 2-66]. */
  sit(processId: string, holder: LineHolder, options: SitOptions): Seat
  /** Knows what an earlier run of the agent has started. */
  adopt(): void
}

type Entry = {
  file: ManagedFile
  /** `waiting`: for its next start. */
  state: 'starting' | 'running' | 'waiting' | 'exited'
  /** Monotonic, for what is kept. */
  endedAt: number
  over: PromiseWithResolvers<void>
  launched: Promise<void>
  holder: LineHolder | undefined
  position: number | undefined
  written: Promise<void>
  timer: NodeJS.Timeout | undefined
  /** While it waits, the session is not idle [0-45]. */
  release: (() => void) | undefined
}

/** How long the output of a process whose client was lost is kept from being overwritten. */
const LOST_CLIENT_MS = 30_000
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
  readonly #entries = new Map<string, Entry>()
  /** The link whose ends are listened to: a stop and a wake make another one. */
  #heard: Sandbox['link'] | undefined

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
    sandbox.onEnd(() => {
      for (const entry of this.#entries.values()) this.#rest(entry)
    })
  }

  async start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess> {
    const { process_id: id, command, args, env, cwd, restart, max_restarts, replace } = request
    this.#forgetOld()
    for (let entry = this.#entries.get(id); entry !== undefined && entry.state !== 'exited'; entry = this.#entries.get(id)) {
      if (!replace)
        throw new BoxofficeError(
          'PROCESS_CONFLICT',
          `process_id: ${JSON.stringify(id)} runs already; stop it, pass replace:true, or choose another id`,
        )
      await this.stop(id)
    }
    this.#refuseTooMany()
    const entry = newEntry({
      ...{ process_id: id, command, args, env, cwd: cwd ?? null, restart, max_restarts },
      ...{ run: newRun(id), started_at: new Date().toISOString(), restarts: 0, short_runs: 0 },
      ...{ stopped: false, exited_at: null, exit: null },
    })
    this.#entries.set(id, entry)
    try {
      await this.#launch(entry, signal)
    } catch (error) {
      if (this.#entries.get(id) === entry) this.#forget(id)
      entry.over.resolve()
      throw error
    }
    return this.#describe(entry)
  }

  list(): Promise<ManagedProcess[]> {
    this.#forgetOld()
    return Promise.all([...this.#entries.values()].map((entry) => this.#describe(entry)))
  }

  async get(processId: string): Promise<ManagedProcess> {
    return this.#describe(this.#known(processId))
  }

  async stop(processId: string): Promise<void> {
    const entry = this.#entries.get(processId)
    if (entry === undefined || entry.state === 'exited') return
    this.#change(entry, { stopped: true })
    if (entry.state === 'waiting') return this.#settle(entry)
    await entry.launched.catch(() => {})
    if (!isUp(entry)) return
    const { run } = entry.file
    await this.#closeStdin(run)
    await this.#sandbox.link.call('kill', { id: run, cause: 'stopped', grace_ms: KILL_GRACE_MS }).catch((error: unknown) => {
      if (!isGone(error)) throw error
    })
    await entry.over.promise
  }

  sit(processId: string, holder: LineHolder, { takeover, run, resumes }: SitOptions): Seat {
    const entry = this.#known(processId)
    const name = JSON.stringify(processId)
    const isOver = run !== entry.file.run || entry.state === 'waiting' || entry.state === 'exited'
    if (isOver && resumes && run !== undefined && isRun(run) && processIdOf(run) === processId) return endedSeat(processId, run)
    if (entry.state !== 'running' || (run !== undefined && run !== entry.file.run))
      throw new BoxofficeError('PROCESS_NOT_RUNNING', `process ${name} has ended; GET /processes/${processId} tells how`)
    if (entry.holder !== undefined && !takeover)
      throw new BoxofficeError('ALREADY_ATTACHED', `process ${name} has another socket; pass takeover=true to replace it`)
    const before = entry.holder
    entry.holder = holder
    clearTimeout(entry.timer)
    before?.takenOver()
    // An ended run's seat says nothing about the next one.
    const of = entry.file.run
    return {
      processId,
      run: of,
      before: entry.written,
      get position() {
        return entry.file.run === of ? entry.position : undefined
      },
      set position(position) {
        if (entry.file.run === of) entry.position = position
      },
      leave: ({ written, lost }) => {
        if (entry.file.run !== of) return
        entry.written = written
        if (entry.holder !== holder) return
        entry.holder = undefined
        if (entry.state === 'running') this.#letFlow(entry, lost ? LOST_CLIENT_MS : 0)
      },
    }
  }

  adopt(): void {
    this.#listen()
    for (const file of loadManaged(this.#sandbox.directory)) {
      const entry = newEntry(file)
      entry.position = undefined
      this.#entries.set(file.process_id, entry)
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
    for (const entry of this.#entries.values()) {
      if (entry.state !== 'running') continue
      const { run } = entry.file
      this.#sandbox.link.call('get', { id: run }).then(
        (answer) => {
          const record = ProcessRecord.safeParse(answer).data
          if (record?.state === 'running' && !record.detach && entry.holder === undefined) this.#letFlow(entry, LOST_CLIENT_MS)
          if (record?.state === 'running' && entry.file.stopped) void this.stop(entry.file.process_id).catch(() => {})
        },
        (error: unknown) => {
          if (isGone(error) && entry.file.run === run && entry.state === 'running') this.#onEnd(entry, null, 0)
        },
      )
    }
  }

  #launch(entry: Entry, signal: AbortSignal): Promise<void> {
    entry.launched = this.#spawn(entry, signal)
    return entry.launched
  }

  async #spawn(entry: Entry, signal: AbortSignal): Promise<void> {
    this.#listen()
    saveManaged(this.#sandbox.directory, entry.file)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const stream = new ProcessStream(
      this.#sandbox,
      { type: 'start', payload: managedStart(this.#sandbox, entry.file) },
      {
        ready: () => {
          if (entry.state === 'starting') entry.state = 'running'
          stream.leave()
          resolve()
        },
        output: () => {},
        // The tracker has told of it already.
        exit: () => resolve(),
        failed: reject,
      },
    )
    await stream.open('process', signal)
    await promise
  }

  #listen(): void {
    const { link } = this.#sandbox
    if (this.#heard === link) return
    this.#heard = link
    processTracker(this.#sandbox).onProcessEnd((run, exit, ageMs) => {
      const entry = this.#entries.get(processIdOf(run))
      if (entry?.file.run === run && entry.state !== 'exited' && entry.state !== 'waiting') this.#onEnd(entry, exit, ageMs)
    })
  }

  /** `undefined`: the sandbox went with it. `null`: nobody saw the end, and the sandbox is still there. */
  #onEnd(entry: Entry, exit: SupervisorExit | null | undefined, ageMs: number): void {
    clearTimeout(entry.timer)
    entry.endedAt = performance.now() - ageMs
    const wait = exit === undefined || this.#sandbox.lost !== undefined ? null : restartAfter({ ...entry.file, exit })
    this.#change(entry, {
      exit: exit ?? null,
      exited_at: new Date(Date.now() - ageMs).toISOString(),
      short_runs: shortRuns({ ...entry.file, exit: exit ?? null }),
    })
    if (wait === null) return this.#settle(entry)
    this.#again(entry, wait)
  }

  #again(entry: Entry, wait = restartAfter(entry.file)): void {
    if (wait === null) return this.#settle(entry)
    entry.state = 'waiting'
    entry.release ??= this.#sandbox.activity.run()
    entry.timer = setTimeout(() => void this.#restart(entry), wait)
  }

  async #restart(entry: Entry): Promise<void> {
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
      if (this.#entries.get(id) !== entry || entry.state !== 'starting') return
      entry.file = { ...entry.file, short_runs: short_runs + 1 }
      this.#onEnd(entry, this.#sandbox.lost === undefined ? null : undefined, 0)
    }
  }

  #settle(entry: Entry): void {
    this.#rest(entry)
    entry.state = 'exited'
    entry.over.resolve()
    this.#forgetOld()
  }

  #rest(entry: Entry): void {
    clearTimeout(entry.timer)
    entry.release?.()
    entry.release = undefined
  }

  /** With nobody to read it the process is not held up: the last MiB of its output is kept, and older output gives way. */
  #letFlow(entry: Entry, afterMs: number): void {
    const { run } = entry.file
    const flow = (): void => void this.#sandbox.link.call('detach', { id: run, detach: true }).catch(() => {})
    clearTimeout(entry.timer)
    if (afterMs === 0) return flow()
    entry.timer = setTimeout(flow, afterMs)
    entry.timer.unref()
  }

  /** By a reader of its own, because only readers can. */
  async #closeStdin(run: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const read = [0, 0, 0]
    const stream = new ProcessStream(
      this.#sandbox,
      { type: 'attach', payload: { id: run, stdout: 'end', stderr: 'end' } },
      {
        ready({ stdout, stderr }) {
          read[1] = stdout.offset
          read[2] = stderr.offset
          resolve()
        },
        output(of, piece) {
          read[of] = (read[of] as number) + piece.length
          stream.acknowledge(of, read[of])
        },
        exit: () => resolve(),
        failed: () => resolve(),
      },
    )
    await stream.open('process').catch(resolve)
    await promise
    stream.write(Buffer.alloc(0))
    await stream.drained()
    // The kill comes on another connection, and may come first: the process ends either way.
    void processGone(this.#entries.get(processIdOf(run))).then(() => stream.leave())
  }

  async #describe(entry: Entry): Promise<ManagedProcess> {
    const { file, state, holder } = entry
    const exit = file.exit === null || state === 'running' ? undefined : toExitFields(file.exit)
    return {
      process_id: file.process_id,
      status: state === 'running' || state === 'starting' ? 'running' : 'exited',
      command: file.command,
      args: file.args,
      cwd: file.cwd ?? this.#sandbox.workspacePath,
      env_keys: Object.keys(file.env).sort(),
      attached: holder !== undefined,
      started_at: file.started_at,
      exited_at: file.exited_at,
      exit_code: exit?.exit_code ?? null,
      signal: exit?.signal ?? null,
      reason: exit?.reason ?? (file.exited_at === null ? null : 'sandbox_lost'),
      kill_cause: exit?.kill_cause ?? null,
      spawn_error: exit?.spawn_error ?? null,
      stderr_preview: exit?.spawn_error?.message ?? (await stderrPreview(this.#sandbox, file.run, exit?.stderr_bytes)),
      restarts: file.restarts,
      restarting: state === 'waiting',
      restart: file.restart,
      max_restarts: file.max_restarts,
    }
  }

  #known(processId: string): Entry {
    this.#forgetOld()
    const entry = this.#entries.get(processId)
    if (entry !== undefined) return entry
    throw new BoxofficeError(
      'PROCESS_NOT_FOUND',
      `There is no process ${JSON.stringify(processId)} in this sandbox; GET /processes lists those that run or ended lately`,
    )
  }

  #refuseTooMany(): void {
    const running = [...this.#entries.values()].filter(({ state }) => state !== 'exited').length
    if (running < PROCESS_LIMITS.running) return
    throw new BoxofficeError('RATE_LIMITED', `The sandbox runs ${running} managed processes, as many as it may; stop one first`, {
      retryAfter: 1,
      details: { limit: 'max_managed_processes', max_managed_processes: PROCESS_LIMITS.running },
    })
  }

  #forgetOld(): void {
    const ended = [...this.#entries.values()].filter(({ state }) => state === 'exited').sort((a, b) => a.endedAt - b.endedAt)
    const before = performance.now() - PROCESS_LIMITS.completedKeptSeconds * 1000
    const many = ended.length - PROCESS_LIMITS.completed
    ended.forEach(({ endedAt, file }, at) => {
      if (at < many || endedAt < before) this.#forget(file.process_id)
    })
  }

  #forget(processId: string): void {
    this.#entries.delete(processId)
    removeManaged(this.#sandbox.directory, processId)
  }

  #change(entry: Entry, change: Partial<ManagedFile>): void {
    entry.file = { ...entry.file, ...change }
    // The directory goes with the sandbox.
    if (this.#sandbox.lost === undefined) saveManaged(this.#sandbox.directory, entry.file)
  }
}

/** A run that has ended is nobody's: what it left is read by whoever asks for it. */
const endedSeat = (processId: string, run: string): Seat => ({
  processId,
  run,
  position: undefined,
  before: Promise.resolve(),
  leave() {},
})

const newEntry = (file: ManagedFile): Entry => ({
  file,
  state: 'starting',
  endedAt: 0,
  over: Promise.withResolvers(),
  launched: Promise.resolve(),
  holder: undefined,
  position: 0,
  written: Promise.resolve(),
  timer: undefined,
  release: undefined,
})

/** Others may have changed it meanwhile. */
const isUp = ({ state }: Entry): boolean => state !== 'exited'

const processGone = (entry: Entry | undefined): Promise<void> => entry?.over.promise ?? Promise.resolve()

const isGone = (error: unknown): boolean =>
  error instanceof BoxofficeError && (error.code === 'EXEC_NOT_FOUND' || error.code === 'PROCESS_NOT_RUNNING')
