import type { JournalFact, Profile } from '@boxoffice/protocol'
import type { SupervisorLink } from '../supervisor/link.ts'
import type { HoldReason } from './held.ts'
import type { ManagedProcesses } from './managed-processes.ts'
import type { ProcessTracker } from './process-tracker.ts'

/** Counts work in a sandbox so that the broker can tell idle from busy [C-51]. */
export interface Activity {
  /** Something happened on the dataplane. */
  touch(): void
  /** A client is attached (an exec or shell socket, a running HTTP request) until the returned function is called. */
  attach(): () => void
  /** A process runs until the returned function is called. */
  run(): () => void
  snapshot(): { running: number; attached: number; idle_ms: number }
}

/** One sandbox as the dataplane sees it: assigned to a session, with a supervisor to talk to. */
export interface Sandbox {
  readonly id: string
  readonly sessionId: string
  readonly generation: number
  readonly profile: Profile
  readonly isolation: 'container' | 'bubblewrap' | 'none'
  /** Where `/workspace` is inside the sandbox: `/workspace`, or the session's directory with isolation `none`. */
  readonly workspacePath: string
  /** The agent's own, for what it keeps of the sandbox; not seen inside. */
  readonly directory: string
  /** Variables of every process that the agent starts in it, those of a request before them. */
  readonly environment?: Readonly<Record<string, string>>
  readonly link: SupervisorLink
  /** Of the processes behind `link`. Throws SANDBOX_STARTING where there is none. */
  readonly tracker: ProcessTracker
  readonly processes: ManagedProcesses
  readonly activity: Activity
  /** Set when the sandbox is known to be dead; its message is safe to show. */
  readonly lost: { reason: string } | undefined
  /** Whether it sleeps, frozen or stopped, until `ready`. */
  readonly isSuspended: boolean
  /** Set while its processes are stopped for what they write; nothing is started in it then, and nothing uploaded. */
  readonly held?: HoldReason | undefined
  /** Calls back when that begins. Returns an unsubscribe function. */
  onHeld?(listener: (reason: HoldReason) => void): () => void
  /** Tells those who follow its session what has happened in it, `ageMs` ago. */
  note(fact: JournalFact, ageMs?: number): void
  /**
   * Returns when the supervisor can be spoken to: at once for a running sandbox; wakes a suspended one.
   * Throws SANDBOX_STARTING (423) after 10 s, SANDBOX_LOST when it is dead [C-53].
   */
  ready(signal: AbortSignal): Promise<void>
  /**
   * Calls back once when the sandbox dies or is destroyed (`released` etc.), soon when that has happened already; for closing
   * sockets. Returns an unsubscribe function.
   */
  onEnd(
    listener: (
      end: { lost: true; reason: string } | { lost: false; reason: 'released' | 'hard_ttl' | 'lease' | 'idle' | 'failed' },
    ) => void,
  ): () => void
}

/** Finds sandboxes for the dataplane. */
export interface SandboxDirectory {
  /** The live sandbox of this id that is assigned to a session, else undefined. Synchronous: it is on the hot path. */
  get(id: string): Sandbox | undefined
  /** Whether a record of an earlier run names it and its provider has not listed it yet: it is neither known nor gone. */
  isAwaited(id: string): boolean
}
