import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { type JournalFact, newSandboxId, newSessionId, Profile } from '@boxoffice/protocol'
import pino from 'pino'
import { createTracker } from '../../src/exec/tracker.ts'
import { createManagedProcesses } from '../../src/processes/managed-processes.ts'
import type { ProcessTracker } from '../../src/sandbox/process-tracker.ts'
import type { Activity, Sandbox } from '../../src/sandbox/sandbox.ts'
import { AwakeLinks } from '../../src/supervisor/awake-links.ts'
import type { SupervisorLink } from '../../src/supervisor/link.ts'
import { createSupervisorLink, type SupervisorLinkOptions } from '../../src/supervisor/supervisor-link.ts'

const PACKAGE = new URL('../../../../packages/supervisor/', import.meta.url)

/** What set-up put in its place, else what cargo has built last. */
const findSupervisor = (): string => {
  const given = process.env.BOXOFFICE_SUPERVISOR
  if (given !== undefined) return given
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const places = ['bin/supervisor', 'target/release/supervisor', `target/${machine}-*/release/supervisor`]
  const builds = globSync(places, { cwd: PACKAGE.pathname })
  const newest = builds.map((path) => new URL(path, PACKAGE).pathname).sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0]
  if (newest === undefined) throw new Error('supervisor: not built; run `cargo build --release` in packages/supervisor')
  return newest
}

export const SUPERVISOR = findSupervisor()

export const quiet = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })

type End = Parameters<Parameters<Sandbox['onEnd']>[0]>[0]

/** A real supervisor on a plain directory, without isolation, and the link to it. */
export class TestSandbox implements Sandbox {
  readonly isSuspended = false
  readonly id = newSandboxId()
  readonly sessionId = newSessionId()
  readonly generation = 1
  readonly isolation = 'none'
  readonly profile: Profile
  readonly directory: string
  readonly activity = createActivity()
  link: SupervisorLink
  lost: { reason: string } | undefined
  /** What was told of it. */
  readonly facts: JournalFact[] = []
  secretHash: string | undefined
  #tracker: ProcessTracker | undefined
  readonly #listeners = new Set<(end: End) => void>()
  readonly processes = createManagedProcesses(this)
  readonly #process: ChildProcess
  readonly #exited: Promise<unknown>

  private constructor(directory: string, link: SupervisorLink, child: ChildProcess, profile: Profile) {
    this.directory = directory
    this.link = link
    this.#process = child
    this.profile = profile
    this.#exited = once(child, 'exit')
  }

  /**
   * `splicePath`: what the agent takes for the supervisor's program when it moves a large body; `options`: of the link, and the
   * supervisor that runs inside.
   */
  static async start(
    profile: Partial<Profile> = {},
    splicePath = SUPERVISOR,
    { supervisor = SUPERVISOR, ...options }: { idleMs?: number; awake?: AwakeLinks; supervisor?: string } = {},
  ): Promise<TestSandbox> {
    const directory = await mkdtemp(join(tmpdir(), 'boxoffice-dataplane-'))
    for (const name of ['workspace', 'home']) await mkdir(join(directory, name))
    let hash: string | undefined
    const onSecret = (value: string): void => {
      hash = value
    }
    const link = await openLink(directory, { onSecret, supervisorPath: splicePath, ...options })
    const child = spawn(
      supervisor,
      [
        '--socket',
        join(directory, 'link.sock'),
        '--workspace',
        join(directory, 'workspace'),
        '--home',
        join(directory, 'home'),
        '--no-seccomp',
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const sandbox = new TestSandbox(directory, link, child, Profile.parse({ name: 'default', ...profile }))
    await link.whenConnected(AbortSignal.timeout(60_000))
    sandbox.secretHash = hash
    return sandbox
  }

  get workspacePath(): string {
    return join(this.directory, 'workspace')
  }

  /** The temporary files of uploads to the workspace itself. */
  async unfinishedUploads(): Promise<string[]> {
    return (await readdir(this.workspacePath)).filter((name) => name.startsWith('.boxoffice-upload-'))
  }

  get tracker(): ProcessTracker {
    this.#tracker ??= createTracker(this, this.link, { adopted: false })
    return this.#tracker
  }

  /** Takes the processes for those of an earlier run of the agent. */
  adoptProcesses(): void {
    this.#tracker = createTracker(this, this.link, { adopted: true })
  }

  get supervisorPid(): number {
    return this.#process.pid as number
  }

  async ready(signal: AbortSignal): Promise<void> {
    if (!this.link.connected) await this.link.whenConnected(signal)
  }

  note(fact: JournalFact): void {
    this.facts.push(fact)
  }

  onEnd(listener: (end: End) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  end(end: End): void {
    if (end.lost) this.lost = { reason: end.reason }
    for (const listener of [...this.#listeners]) listener(end)
  }

  /** What an agent restart looks like to the supervisor. `prepare` has the link before the supervisor dials. */
  async relink(prepare: (link: SupervisorLink) => void = () => {}): Promise<void> {
    await this.link.close()
    const { secretHash } = this
    this.link = await openLink(this.directory, { onSecret: () => {}, supervisorPath: SUPERVISOR, ...(secretHash && { secretHash }) })
    prepare(this.link)
    this.#tracker = undefined
    await this.link.whenConnected(AbortSignal.timeout(60_000))
  }

  /** The sandbox dies. */
  async kill(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill('SIGKILL')
    await this.#exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.link.connected && this.lost === undefined)
      await this.link.call('shutdown', { cause: 'shutdown', grace_ms: 100 }).catch(() => {})
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      await withTimeout(this.#exited, 2000, () => this.kill())
    }
    await this.link.close()
    await rm(this.directory, { recursive: true, force: true })
  }
}

const openLink = (
  directory: string,
  options: Pick<SupervisorLinkOptions, 'onSecret' | 'supervisorPath' | 'secretHash' | 'idleMs'> & { awake?: AwakeLinks },
): Promise<SupervisorLink> =>
  createSupervisorLink({ socketPath: join(directory, 'link.sock'), awake: new AwakeLinks(20_000), log: quiet, ...options })

export type CountedActivity = Activity & { attached: number; running: number }

const createActivity = (): CountedActivity => {
  let touchedAt = performance.now()
  const counted = (key: 'attached' | 'running') => (): (() => void) => {
    activity[key]++
    let open = true
    return () => {
      if (open) activity[key]--
      open = false
    }
  }
  const activity: CountedActivity = {
    attached: 0,
    running: 0,
    touch: () => {
      touchedAt = performance.now()
    },
    attach: counted('attached'),
    run: counted('running'),
    snapshot: () => ({ running: activity.running, attached: activity.attached, idle_ms: performance.now() - touchedAt }),
  }
  return activity
}
