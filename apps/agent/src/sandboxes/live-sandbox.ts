import { setTimeout as delay } from 'node:timers/promises'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, type JournalFact, type KillCause, type Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Journal } from '../broker-link/journal.ts'
import { type SandboxFile, saveSandboxFile, writeNewSandboxFile } from '../data-dir/record-file.ts'
import { adoptProcesses, trackerOf } from '../exec/tracker.ts'
import { managedProcesses } from '../processes/managed-processes.ts'
import { createActivity } from '../sandbox/activity.ts'
import { type End, type EndCause, endError, endOf, KILL_CAUSES, lostError, startingError } from '../sandbox/end.ts'
import type { HoldReason } from '../sandbox/held.ts'
import type { Inside, Provider, SandboxHandle } from '../sandbox/provider.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorLink } from '../supervisor/link.ts'
import { abortOf, firstDial } from './first-dial.ts'

type State = { name: 'starting' } | { name: 'running' } | { name: 'frozen' } | { name: 'stopped' } | { name: 'lost'; reason: string }

export type LiveSandboxParts = {
  file: SandboxFile
  directory: string
  workspacePath: string
  /** Where that is on the host. */
  workspaceDirectory: string
  provider: Provider
  /** Listens for a supervisor; without a hash for one that has never dialled. */
  listen: (secretHash: string | null, onSecret: (hash: string) => Promise<void>) => Promise<SupervisorLink>
  onLost: (sandbox: LiveSandbox) => void
  journal: Pick<Journal, 'write'>
  log: Logger
}

const READY_WITHIN_MS = 10_000
/** After a broken link: when to ask the engine. It may learn of an end a little later than we do. */
const LOOKS_MS = [0, 50, 200, 1000]
/** How long processes have between TERM and KILL when a stop frees their memory; at the end of the session their profile says it [C-28]. */
const STOP_GRACE_MS = 1000

/** One sandbox that the agent holds: its engine handle, its supervisor's link and its state, changed by one operation at a time. */
export class LiveSandbox implements Sandbox {
  readonly activity = createActivity()
  readonly workspacePath: string
  readonly #heldListeners = new Set<(reason: HoldReason) => void>()
  #held: HoldReason | undefined
  readonly #parts: LiveSandboxParts
  readonly #life = new AbortController()
  readonly #listeners = new Set<(end: End) => void>()
  #file: SandboxFile
  #state: State = { name: 'starting' }
  #link: SupervisorLink | undefined
  #handle: SandboxHandle | undefined
  #last: Promise<unknown> = Promise.resolve()
  #saved: Promise<unknown> = Promise.resolve()
  /** Why it is being ended, or has been. */
  #cause: EndCause | undefined
  /** What its listeners have been told. */
  #end: End | undefined
  /** Aborts a start that its own end overtakes. */
  readonly #overtaken = new AbortController()
  #stopping = false

  constructor(parts: LiveSandboxParts) {
    this.#parts = parts
    this.#file = parts.file
    this.workspacePath = parts.workspacePath
  }

  get id(): string {
    return this.#file.sandbox_id
  }
  get sessionId(): string {
    return this.#file.session_id ?? ''
  }
  get generation(): number {
    return this.#file.generation
  }
  get profile(): Profile {
    return this.#file.profile
  }
  get isolation(): Sandbox['isolation'] {
    return this.#parts.provider.capabilities.isolation
  }
  get file(): SandboxFile {
    return this.#file
  }
  get state(): State['name'] {
    return this.#state.name
  }
  get provider(): Provider['name'] {
    return this.#parts.provider.name
  }
  /** Whether the supervisor can be spoken to right now. */
  get linked(): boolean {
    return this.#link?.connected ?? false
  }
  get held(): HoldReason | undefined {
    return this.#held
  }
  set held(reason: HoldReason | undefined) {
    this.#held = reason
    if (reason !== undefined) for (const listener of [...this.#heldListeners]) listener(reason)
  }
  get directory(): string {
    return this.#parts.directory
  }
  get workspaceDirectory(): string {
    return this.#parts.workspaceDirectory
  }
  get lost(): { reason: string } | undefined {
    return this.#state.name === 'lost' ? { reason: this.#state.reason } : undefined
  }
  /** A stop ends the supervisor and its link; the wake makes a new one, so read this afresh for each use. */
  get link(): SupervisorLink {
    if (this.#link === undefined) throw startingError()
    return this.#link
  }

  /** Writes the record before the engine starts anything, so that a crash leaves nothing without a name. */
  async prepare(): Promise<void> {
    await Promise.all([this.#save({}), this.#listen()])
  }

  /** Starts the engine's part and waits for the supervisor. An end that comes meanwhile aborts it, and has its turn after it. */
  launch(start: (signal: AbortSignal) => Promise<SandboxHandle>, signal: AbortSignal): Promise<void> {
    const within = AbortSignal.any([signal, this.#overtaken.signal])
    return this.#exclusive(async () => {
      try {
        this.#refuseIfEnding()
        this.#handle = await start(within)
        await firstDial(this.link, () => this.#parts.provider.inspect(this.#known()), within)
        this.#state = { name: 'running' }
      } catch (error) {
        this.#refuseIfEnding()
        throw error
      }
    })
  }

  /** Takes over what an earlier run of the agent left. A frozen one cannot dial, and is waited for at its wake. */
  async adopt(handle: SandboxHandle | undefined, asConfigured: boolean): Promise<void> {
    this.#handle = handle
    if (!asConfigured) return this.#lose('config_drift')
    if (handle === undefined || handle.state === 'lost' || (handle.state === 'stopped' && !this.#file.stopped))
      return this.#lose(handle?.oomKilled ? 'oom' : 'the sandbox ended while the agent was away')
    this.#state = { name: handle.state }
    // Else the broker takes the restart for a use of each, and wakes them all.
    if (handle.state !== 'running') this.activity.slept()
    if (handle.state === 'stopped') return
    await this.#listen()
    adoptProcesses(this)
    managedProcesses(this).adopt()
  }

  /** Gives one from the pool to a session. */
  assign(sessionId: string, profile: Profile, keptAs: string | null): Promise<void> {
    this.activity.touch()
    return this.#save({ session_id: sessionId, profile, kept_as: keptAs })
  }

  async ready(signal: AbortSignal): Promise<void> {
    this.activity.touch()
    this.#refuseIfEnding()
    if (this.#state.name === 'running' && this.linked && !this.#stopping) return
    const within = AbortSignal.any([signal, this.#life.signal, AbortSignal.timeout(READY_WITHIN_MS)])
    try {
      await Promise.race([this.resume(), abortOf(within)])
      await this.link.whenConnected(within)
    } catch (error) {
      throw this.#whyNot(error)
    }
  }

  note(fact: JournalFact, ageMs?: number): void {
    // One that waits in the pool has nobody to tell.
    if (this.#file.session_id !== null) this.#parts.journal.write({ sessionId: this.#file.session_id, sandboxId: this.id }, fact, ageMs)
  }

  onEnd(listener: (end: End) => void): () => void {
    this.#listeners.add(listener)
    const end = this.#end
    if (end !== undefined) queueMicrotask(() => this.#tell(end))
    return () => this.#listeners.delete(listener)
  }

  onHeld(listener: (reason: HoldReason) => void): () => void {
    this.#heldListeners.add(listener)
    return () => this.#heldListeners.delete(listener)
  }

  suspend(mode: 'freeze' | 'stop'): Promise<void> {
    return this.#exclusive(async () => {
      if (this.#state.name === 'lost') throw this.#lostError()
      if (this.#state.name === 'stopped' || (mode === 'freeze' && this.#state.name === 'frozen')) return
      this.#refuseIfBusy()
      if (mode === 'freeze') await this.#freeze()
      else await this.#stopInTurn()
    })
  }

  resume(): Promise<void> {
    if (this.#state.name === 'running' && !this.#stopping) return Promise.resolve()
    return this.#exclusive(async () => {
      if (this.#state.name === 'lost') throw this.#lostError()
      if (this.#state.name === 'frozen' || this.#state.name === 'stopped') await this.#wakeAndTell(this.#state.name)
    })
  }

  /** What runs in it; undefined while it does not run, and where that cannot be seen. */
  async inside(): Promise<Inside | undefined> {
    if (this.#state.name !== 'running' || this.#handle === undefined) return undefined
    return this.#parts.provider.inside?.(this.#handle)
  }

  /** Asks the engine whether it is still there; tells everybody when it is not. */
  verify(): Promise<void> {
    if (this.#state.name === 'lost' || this.#state.name === 'starting') return Promise.resolve()
    return this.#exclusive(async () => {
      if (this.#handle === undefined || this.#state.name === 'lost' || this.#cause !== undefined || this.#life.signal.aborted) return
      const now = await this.#parts.provider.inspect(this.#handle)
      const expected = this.#state.name === 'stopped' ? ['stopped', 'lost'] : ['running', 'frozen']
      if (now === undefined) this.#lose('the sandbox was removed')
      else if (!expected.includes(now.state)) this.#lose(now.oomKilled ? 'oom' : 'the sandbox ended')
    })
  }

  /** Ends it for good: processes get TERM, sockets their close, the engine its order. Directories are the manager's. */
  async end(reason: EndCause): Promise<void> {
    this.#cause = reason
    this.#overtaken.abort()
    // What is on hold would write on in its grace.
    const graceMs = this.held === undefined ? this.profile.end_grace_seconds * 1000 : 0
    const shutdown = this.#shutdown(KILL_CAUSES[reason], graceMs)
    // Processes that end at once have their true exit told before their sockets close; nobody waits longer for it.
    await withTimeout(shutdown, 1000, () => undefined)
    // Whoever negotiates again finds the session with its next sandbox.
    this.#tell(endOf(reason))
    await shutdown
    await this.#exclusive(async () => {
      this.#life.abort()
      if (this.#handle !== undefined) await this.#parts.provider.destroy(this.#handle)
      await this.#link?.close()
      await this.#saved
    })
  }

  /** Lets go of it: an agent that stops leaves its sandboxes alone. */
  async release(): Promise<void> {
    this.#life.abort()
    await this.#link?.close()
  }

  async #freeze(): Promise<void> {
    await this.#parts.provider.suspend(this.#known(), 'freeze')
    this.#state = { name: 'frozen' }
    // Work that came in while the engine was at it would wait for ever.
    const { running, attached } = this.activity.snapshot()
    if (running > 0 || attached > 0) await this.#wakeAndTell('frozen')
  }

  /** What comes while it stops waits for that and wakes it: the supervisor starts nothing more. */
  async #stopInTurn(): Promise<void> {
    this.#stopping = true
    try {
      await this.#stop()
    } finally {
      this.#stopping = false
    }
  }

  async #stop(): Promise<void> {
    // Processes are told why they end, and they cannot be while they are frozen.
    if (this.#state.name === 'frozen') await this.#wake()
    await this.#shutdown('stopped', STOP_GRACE_MS)
    this.#state = { name: 'stopped' }
    await this.#save({ stopped: true })
    await this.#parts.provider.suspend(this.#known(), 'stop')
    if (this.#link !== undefined) trackerOf(this.#link)?.gone('stopped')
    await this.#link?.close()
    this.#link = undefined
  }

  async #wakeAndTell(from: 'frozen' | 'stopped'): Promise<void> {
    await this.#wake()
    if (this.#cause === undefined) this.note({ type: 'wake', data: { from: from === 'frozen' ? 'freeze' : 'stop' } })
  }

  /** Not activity: that is with whoever asks (`ready`), and a stop wakes what is frozen only to end it. */
  async #wake(): Promise<void> {
    if (this.#state.name === 'stopped') {
      // A new supervisor has never had a secret.
      await this.#save({ secret_hash: null, stopped: false })
      await this.#listen()
    }
    await this.#parts.provider.resume(this.#known())
    this.#state = { name: 'running' }
  }

  async #shutdown(cause: KillCause, graceMs: number): Promise<void> {
    if (this.#state.name === 'frozen') await this.resume().catch(() => {})
    if (this.#state.name !== 'running' || !this.#link?.connected) return
    const answered = this.#link.call('shutdown', { cause, grace_ms: graceMs }).catch(() => {})
    await withTimeout(answered, graceMs + 1000, () => undefined)
  }

  async #listen(): Promise<void> {
    const link = await this.#parts.listen(this.#file.secret_hash, (hash) => this.#save({ secret_hash: hash }))
    this.#link = link
    link.onConnection((connected) => {
      if (!connected && this.#link === link) void this.#lookAfter(link)
    })
  }

  /** A link that broke may come back (a supervisor never leaves by itself), or be the first sign of an end. */
  async #lookAfter(link: SupervisorLink): Promise<void> {
    for (const wait of LOOKS_MS) {
      if (wait > 0) await delay(wait, undefined, { ref: false })
      if (link.connected || this.#link !== link || this.#life.signal.aborted) return
      await this.verify().catch((err: unknown) =>
        this.#parts.log.warn({ err, sandbox_id: this.id }, 'the engine could not be asked about a sandbox'),
      )
    }
  }

  #known(): SandboxHandle {
    if (this.#handle === undefined) throw startingError()
    return this.#handle
  }

  /** The broker's last report may be older than work that has come since. */
  #refuseIfBusy(): void {
    const { running, attached } = this.activity.snapshot()
    // The end of a hold has to find its processes awake.
    if (running > 0 || attached > 0 || this.held !== undefined)
      throw new BoxofficeError('BINDING_CONFLICT', 'the sandbox is in use; it is not suspended while work runs')
  }

  #lose(reason: string): void {
    if (this.#life.signal.aborted) return
    this.#state = { name: 'lost', reason }
    this.#life.abort()
    if (this.#link !== undefined) trackerOf(this.#link)?.gone(reason === 'oom' ? 'oom' : 'lost')
    void this.#link?.close()
    this.#tell({ lost: true, reason })
    this.#parts.onLost(this)
  }

  #tell(end: End): void {
    this.#end ??= end
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) listener(end)
  }

  #refuseIfEnding(): void {
    if (this.#cause !== undefined) throw endError(endOf(this.#cause))
  }

  #lostError(): BoxofficeError {
    return lostError(this.lost?.reason ?? 'ended')
  }

  #whyNot(error: unknown): unknown {
    if (this.#life.signal.aborted) return this.#lostError()
    if (error instanceof BoxofficeError) return error
    return startingError(error)
  }

  #exclusive<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#last.then(operation, operation)
    this.#last = result.catch(() => {})
    return result
  }

  #save(change: Partial<SandboxFile>): Promise<void> {
    this.#file = { ...this.#file, ...change }
    const isNew = this.#state.name === 'starting' && this.#file.generation === 1
    const write = isNew ? writeNewSandboxFile : saveSandboxFile
    const saved = this.#saved.then(() => write(this.#parts.directory, this.#file))
    this.#saved = saved.catch(() => {})
    return saved
  }
}
