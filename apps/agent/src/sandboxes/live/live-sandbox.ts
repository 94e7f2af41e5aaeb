import { SerialQueue } from '@boxoffice/kit/serial-queue'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, type EgressPolicy, type JournalFact, type KillCause, type Network, type Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Journal } from '../../broker-link/journal.ts'
import type { SandboxFile } from '../../data-dir/record-file.ts'
import { RecordWriter } from '../../data-dir/record-writer.ts'
import { effectiveNetwork, egressPolicyOf } from '../../egress/sandbox/effective-network.ts'
import { type EgressSettings, SandboxEgress } from '../../egress/sandbox/sandbox-egress.ts'
import { createManagedProcesses } from '../../processes/managed-processes.ts'
import { createActivity } from '../../sandbox/activity.ts'
import { type End, type EndCause, endError, endOf, KILL_CAUSES, lostError, startingError } from '../../sandbox/end.ts'
import { EndSignal } from '../../sandbox/end-signal.ts'
import type { HoldReason } from '../../sandbox/held.ts'
import type { ManagedProcesses } from '../../sandbox/managed-processes.ts'
import type { ProcessTracker } from '../../sandbox/process-tracker.ts'
import type { Inside, Provider, SandboxHandle } from '../../sandbox/provider.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { SupervisorLink } from '../../supervisor/link.ts'
import { abortOf, firstDial } from './first-dial.ts'
import { afterEvent, isAsleep, isAwake, type Life, type LifeEvent, reportedState, STARTING } from './life.ts'
import { Orders, type SuspendOrder } from './orders.ts'
import { SandboxLink } from './sandbox-link.ts'

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
  linkDirectory: string
  egress: EgressSettings
  journal: Pick<Journal, 'write'>
  log: Logger
}

const READY_WITHIN_MS = 10_000
/** How long processes have between TERM and KILL when a stop frees their memory; at the end of the session their profile says it [C-28]. */
const STOP_GRACE_MS = 1000

/** One sandbox that the agent holds: its engine handle, its supervisor's link and its life, changed by one operation at a time. */
export class LiveSandbox implements Sandbox {
  readonly activity = createActivity()
  readonly orders = new Orders()
  readonly workspacePath: string
  readonly #parts: LiveSandboxParts
  readonly #record: RecordWriter
  readonly #end = new EndSignal()
  readonly #heldListeners = new Set<(reason: HoldReason) => void>()
  #held: HoldReason | undefined
  /** Lost, ended or let go of: nothing is waited for any more. */
  readonly #closed = new AbortController()
  /** Aborts a start that its own end overtakes. */
  readonly #overtaken = new AbortController()
  readonly #link = new SandboxLink({ sandbox: this, onBroken: () => this.#verifyQuietly(), closed: this.#closed.signal })
  readonly #egress: SandboxEgress | undefined
  #processes: ManagedProcesses | undefined
  #life: Life = STARTING
  #handle: SandboxHandle | undefined
  readonly #queue = new SerialQueue()

  constructor(parts: LiveSandboxParts) {
    this.#parts = parts
    this.#record = new RecordWriter(parts.directory, parts.file)
    this.workspacePath = parts.workspacePath
    const policy = egressPolicyOf(parts.file.profile, parts.provider.capabilities)
    if (policy !== undefined) {
      const { linkDirectory, egress: settings, log } = parts
      this.#egress = new SandboxEgress({ sandbox: this, policy, linkDirectory, settings, log })
    }
  }

  get id(): string {
    return this.file.sandbox_id
  }
  get sessionId(): string {
    return this.file.session_id ?? ''
  }
  get generation(): number {
    return this.file.generation
  }
  get profile(): Profile {
    return this.file.profile
  }
  get isolation(): Sandbox['isolation'] {
    return this.#parts.provider.capabilities.isolation
  }
  get file(): SandboxFile {
    return this.#record.file
  }
  get network(): Network {
    return effectiveNetwork(this.profile, this.#parts.provider.capabilities)
  }
  get state(): ReturnType<typeof reportedState> {
    return reportedState(this.#life)
  }
  get isSuspended(): boolean {
    return isAsleep(this.#life)
  }
  get provider(): Provider['name'] {
    return this.#parts.provider.name
  }
  /** Whether the supervisor can be spoken to right now. */
  get linked(): boolean {
    return this.#link.connected
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
    return this.#life.name === 'lost' ? { reason: this.#life.reason } : undefined
  }
  /** A stop ends the supervisor and its link; the wake makes a new one, so read this afresh for each use. */
  get link(): SupervisorLink {
    return this.#link.current
  }
  get environment(): Record<string, string> | undefined {
    return this.#egress?.environment
  }
  get tracker(): ProcessTracker {
    return this.#link.tracker
  }
  /** Made when they are first asked for. */
  get processes(): ManagedProcesses {
    this.#processes ??= createManagedProcesses(this)
    return this.#processes
  }

  /** Writes the record before the engine starts anything, so that a crash leaves nothing without a name. */
  async prepare(): Promise<void> {
    await Promise.all([this.#save({}), this.#listen({ adopted: false })])
  }

  /** Starts the engine's part and waits for the supervisor. An end that comes meanwhile aborts it, and has its turn after it. */
  launch(start: (signal: AbortSignal) => Promise<SandboxHandle>, signal: AbortSignal): Promise<void> {
    const withEnd = AbortSignal.any([signal, this.#overtaken.signal])
    return this.#queue.run(async () => {
      try {
        this.#refuseIfEnding()
        this.#handle = await start(withEnd)
        await firstDial(this.link, () => this.#parts.provider.sandboxes.inspect(this.#known()), withEnd)
        await this.#egress?.ready(this.link)
        this.#apply({ type: 'started' })
      } catch (error) {
        this.#refuseIfEnding()
        throw error
      }
    })
  }

  /** Takes over what an earlier run of the agent left. A frozen one cannot dial, and is waited for at its wake. */
  async adopt(found: SandboxHandle | undefined, asConfigured: boolean): Promise<void> {
    this.#handle = found
    if (!asConfigured) return this.#lose('config_drift')
    // The agent was killed in a wake that failed.
    const handle = found?.state === 'lost' && this.file.stopped ? await this.#stopAgain(found) : found
    if (handle === undefined || handle.state === 'lost' || (handle.state === 'stopped' && !this.file.stopped))
      return this.#lose(lossOf(handle) ?? 'the sandbox ended while the agent was away')
    const as = handle.state === 'starting' ? 'running' : handle.state
    this.#apply({ type: 'adopted', as })
    // Else the broker takes the restart for a use of each, and wakes them all.
    if (as !== 'running') this.activity.slept()
    if (handle.state === 'stopped') return
    // The agent was killed in a wake that did not fail.
    if (this.file.stopped) await this.#save({ stopped: false })
    await this.#listen({ adopted: true })
    this.processes.adopt()
  }

  /** Gives one from the pool to a session. */
  async assign(sessionId: string, profile: Profile, keptAs: string | null): Promise<void> {
    this.activity.touch()
    // Those of the pool have the policy of the profile that they were made for.
    const policy = egressPolicyOf(profile, this.#parts.provider.capabilities)
    if (policy !== undefined) await this.#egress?.setPolicy(policy)
    return this.#save({ session_id: sessionId, profile, kept_as: keptAs })
  }

  /**
   * Changes where its programs may connect to; null: to nothing, or with `network: on` everywhere. An order that is older than the last one is
   * dropped. Gives the revision of the one that holds. Throws UNSUPPORTED for a sandbox that has no proxy.
   */
  async setEgress(egress: EgressPolicy | null, revision: number): Promise<number> {
    const profile = { ...this.profile, egress }
    const policy = egressPolicyOf(profile, this.#parts.provider.capabilities)
    if (this.#egress === undefined || policy === undefined)
      throw new BoxofficeError('UNSUPPORTED', 'egress: this sandbox has no proxy; choose a profile whose network is "proxy"')
    if (revision < this.file.egress_revision) return this.file.egress_revision
    await Promise.all([this.#save({ profile, egress_revision: revision }), this.#egress.setPolicy(policy)])
    return revision
  }

  async ready(signal: AbortSignal): Promise<void> {
    this.activity.touch()
    this.#refuseIfEnding()
    if (this.#life.name === 'running' && this.linked) return
    const bounded = AbortSignal.any([signal, this.#closed.signal, AbortSignal.timeout(READY_WITHIN_MS)])
    try {
      await Promise.race([this.resume(), abortOf(bounded)])
      await this.link.whenConnected(bounded)
    } catch (error) {
      throw this.#whyNot(error)
    }
  }

  note(fact: JournalFact, ageMs?: number): void {
    // One that waits in the pool has nobody to tell.
    const { session_id: sessionId } = this.file
    if (sessionId !== null) this.#parts.journal.write({ sessionId, sandboxId: this.id }, fact, ageMs)
  }

  onEnd(listener: (end: End) => void): () => void {
    return this.#end.listen(listener)
  }

  onHeld(listener: (reason: HoldReason) => void): () => void {
    this.#heldListeners.add(listener)
    return () => this.#heldListeners.delete(listener)
  }

  suspend(mode: 'freeze' | 'stop', order: SuspendOrder = {}): Promise<void> {
    if (!this.orders.isInForce(order)) return Promise.resolve()
    return this.#queue.run(async () => {
      if (this.#life.name === 'lost') throw this.#lostError()
      // A resume may have come while it waited for its turn.
      if (!this.orders.isInForce(order)) return
      if (this.#life.name === 'stopped' || (mode === 'freeze' && this.#life.name === 'frozen')) return
      if (mode === 'freeze' || order.force !== true || this.held !== undefined) this.#refuseIfBusy()
      if (mode === 'freeze') await this.#freeze()
      else await this.#stop()
    })
  }

  resume(): Promise<void> {
    if (this.#life.name === 'running') return Promise.resolve()
    return this.#queue.run(async () => {
      if (this.#life.name === 'lost') throw this.#lostError()
      if (isAsleep(this.#life)) await this.#wake(this.#life.name)
    })
  }

  /** What runs in it; undefined while it does not run, and where that cannot be seen. */
  async inside(): Promise<Inside | undefined> {
    if (!isAwake(this.#life) || this.#handle === undefined) return undefined
    return this.#parts.provider.host.inside?.(this.#handle)
  }

  /** Asks the engine whether it is still there; tells everybody when it is not. */
  verify(): Promise<void> {
    if (this.#life.name === 'lost' || this.#life.name === 'starting') return Promise.resolve()
    return this.#queue.run(async () => {
      if (this.#handle === undefined || this.#life.name === 'lost' || this.#life.ending !== undefined || this.#closed.signal.aborted) return
      const now = await this.#parts.provider.sandboxes.inspect(this.#handle)
      const expected = this.#life.name === 'stopped' ? ['stopped', 'lost'] : ['starting', 'running', 'frozen']
      if (now === undefined) this.#lose('the sandbox was removed')
      else if (!expected.includes(now.state)) this.#lose(lossOf(now) ?? 'the sandbox ended')
    })
  }

  /** Ends it for good: processes get TERM, sockets their close, the engine its order. Directories are the manager's. */
  async end(reason: EndCause): Promise<void> {
    this.#apply({ type: 'ending', cause: reason })
    this.#overtaken.abort()
    // What is on hold would write on in its grace.
    const graceMs = this.held === undefined ? this.profile.end_grace_seconds * 1000 : 0
    const shutdown = this.#shutdown(KILL_CAUSES[reason], graceMs)
    // Processes that end at once have their true exit told before their sockets close; nobody waits longer for it.
    await withTimeout(shutdown, 1000, () => undefined)
    // Whoever negotiates again finds the session with its next sandbox.
    this.#end.tell(endOf(reason))
    await shutdown
    await this.#queue.run(async () => {
      this.#closed.abort()
      if (this.#handle !== undefined) await this.#parts.provider.sandboxes.destroy(this.#handle)
      this.#egress?.close()
      await this.#link.close()
      await this.#record.written
    })
  }

  /** Lets go of it: an agent that stops leaves its sandboxes alone. */
  async release(): Promise<void> {
    this.#closed.abort()
    this.#egress?.close()
    await this.#link.close()
  }

  async #freeze(): Promise<void> {
    await this.#parts.provider.sandboxes.suspend(this.#known(), 'freeze')
    this.#apply({ type: 'frozen' })
    // Work that came in while the engine was at it would wait for ever.
    const { running, attached } = this.activity.snapshot()
    if (running > 0 || attached > 0) await this.#wake('frozen')
  }

  /** What comes while it stops waits for that and wakes it: the supervisor starts nothing more. */
  async #stop(): Promise<void> {
    // Processes are told why they end, and they cannot be while they are frozen.
    if (this.#life.name === 'frozen') await this.#parts.provider.sandboxes.resume(this.#known())
    this.#apply({ type: 'stopping' })
    await this.#shutdown('stopped', STOP_GRACE_MS)
    this.#apply({ type: 'stopped' })
    await this.#save({ stopped: true })
    await this.#parts.provider.sandboxes.suspend(this.#known(), 'stop')
    this.#link.gone('stopped')
    await this.#link.drop()
  }

  /** Not activity: that is with whoever asks (`ready`). */
  async #wake(from: 'frozen' | 'stopped'): Promise<void> {
    if (from === 'stopped') await this.#startAgain()
    else await this.#parts.provider.sandboxes.resume(this.#known())
    this.#apply({ type: 'woken' })
    if (this.#life.ending === undefined) this.note({ type: 'wake', data: { from: from === 'frozen' ? 'freeze' : 'stop' } })
  }

  /** Waits for the supervisor's dial. A start that fails leaves the sandbox stopped, with all that is in its workspace, for the next wake. */
  async #startAgain(): Promise<void> {
    const { sandboxes } = this.#parts.provider
    // A new supervisor has never had a secret.
    await this.#save({ secret_hash: null })
    await this.#listen({ adopted: false })
    try {
      await sandboxes.resume(this.#known())
      const signal = AbortSignal.any([this.#overtaken.signal, AbortSignal.timeout(READY_WITHIN_MS)])
      await firstDial(this.link, () => sandboxes.inspect(this.#known()), signal)
      await this.#egress?.ready(this.link)
      await this.#save({ stopped: false })
    } catch (error) {
      this.#refuseIfEnding()
      await this.#stopAgain(this.#known())
      await this.#link.drop()
      throw this.#whyNot(error)
    }
  }

  /** After a wake that failed: its workspace is whole, and the next wake finds it. Gives what there is now, as it was where the engine refuses. */
  async #stopAgain(handle: SandboxHandle): Promise<SandboxHandle> {
    try {
      await this.#parts.provider.sandboxes.suspend(handle, 'stop')
      return { ...handle, state: 'stopped' }
    } catch (err) {
      this.#parts.log.warn({ err, sandbox_id: this.id }, 'a sandbox whose wake failed could not be stopped again')
      return handle
    }
  }

  async #shutdown(cause: KillCause, graceMs: number): Promise<void> {
    if (this.#life.name === 'frozen') await this.resume().catch(() => {})
    if (!isAwake(this.#life) || !this.#link.connected) return
    const answered = this.link.call('shutdown', { cause, grace_ms: graceMs }).catch(() => {})
    await withTimeout(answered, graceMs + 1000, () => undefined)
  }

  async #listen({ adopted }: { adopted: boolean }): Promise<void> {
    const link = await this.#parts.listen(this.file.secret_hash, (hash) => this.#save({ secret_hash: hash }))
    this.#link.take(link, { adopted })
    await this.#egress?.attach(link)
  }

  #verifyQuietly(): Promise<void> {
    return this.verify().catch((err: unknown) =>
      this.#parts.log.warn({ err, sandbox_id: this.id }, 'the engine could not be asked about a sandbox'),
    )
  }

  /** The one place where its life changes. */
  #apply(event: LifeEvent): void {
    const next = afterEvent(this.#life, event)
    if (next === undefined) throw new Error(`sandbox ${this.id}: "${event.type}" cannot happen to one that is ${this.#life.name}`)
    this.#life = next
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
    if (this.#closed.signal.aborted) return
    this.#apply({ type: 'lost', reason })
    this.#closed.abort()
    this.#egress?.close()
    this.#link.gone(reason === 'oom' ? 'oom' : 'lost')
    void this.#link.close()
    this.#end.tell({ lost: true, reason })
    this.#parts.onLost(this)
  }

  #refuseIfEnding(): void {
    if (this.#life.ending !== undefined) throw endError(endOf(this.#life.ending))
  }

  #lostError(): BoxofficeError {
    return lostError(this.lost?.reason ?? 'ended')
  }

  #whyNot(error: unknown): unknown {
    if (this.#life.ending !== undefined) return endError(endOf(this.#life.ending))
    if (this.#closed.signal.aborted) return this.#lostError()
    if (error instanceof BoxofficeError) return error
    return startingError(error)
  }

  #save(change: Partial<SandboxFile>): Promise<void> {
    return this.#record.save(change, this.#life.name === 'starting' && this.file.generation === 1)
  }
}

/** What the engine says of how it was lost. */
const lossOf = (handle: SandboxHandle | undefined): string | undefined => (handle?.oomKilled ? 'oom' : handle?.lostReason)
