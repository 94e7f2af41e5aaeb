import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import {
  BoxofficeError,
  describeIssues,
  fromUnknown,
  type ManagedProcess,
  PROCESS_LIMITS,
  ProcessId,
  StartProcessRequest,
} from '@boxoffice/protocol'
import type { z } from 'zod'
import type { AgentClient } from '../../agents/agent-client.ts'
import type { Placement } from '../../agents/placement.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import { noSession } from '../../domain/refusals.ts'
import type { PlacedSession, Session } from '../../domain/session.ts'
import type { Log } from '../../host/log.ts'
import type { BoxErrorStore } from '../../store/box-error-store.ts'
import type { AgentStore } from '../../store/store.ts'
import { type BoxCaller, BoxSessions, type BoxSessionsOptions } from './box-sessions.ts'
import { invalid, toBoxRefusal } from './errors.ts'
import { type BoxErrorEntry, LastErrors } from './last-errors.ts'
import { ProcessRecords } from './process-records.ts'
import { BoxSpec } from './spec.ts'
import { type BoxExecResult, RAW_OUTPUT_BYTES, toBoxExec, toBoxSession, toProcessFields } from './views.ts'
import { timeoutOf } from './wanted.ts'
import type { WorkspaceQuota } from './workspace-quota.ts'

export type BoxServiceOptions = BoxSessionsOptions & {
  dataplane: DataplaneClient
  placement: Placement
  agents: Pick<AgentStore, 'byId' | 'list'>
  boxErrors: BoxErrorStore
  client: Pick<AgentClient, 'processes'>
  quota: WorkspaceQuota
  log: Log
  now: () => number
}

/** The command in the log; names of the environment only, never values [2-130]. */
const LOGGED_COMMAND = 400

/**
 * The Box surface (contract 4.7) in words that REST, RPC and stdio share. A Box session is the session of a thread: everything here
 * is a call to `SessionService` and to the dataplane.
 */
export class BoxService {
  readonly #options: BoxServiceOptions
  readonly #sessions: BoxSessions
  readonly #errors: LastErrors
  readonly #processes: ProcessRecords
  /** By tenant and Box session. */
  readonly #commands = new KeyedQueue()

  constructor(options: BoxServiceOptions) {
    this.#options = options
    this.#sessions = new BoxSessions(options)
    this.#processes = new ProcessRecords(options)
    this.#errors = new LastErrors(options)
  }

  /** Runs one request; a failure is kept for `errors`. `data`: what was asked, as far as it is known by then. */
  async guard<T>({ principal }: BoxCaller, data: () => unknown, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (thrown) {
      const { code: type, message } = toBoxRefusal(fromUnknown(thrown))
      await this.#errors.add(principal.tenant, { at: this.#options.now(), type, message, queryId: queryIdOf(data()) })
      throw thrown
    }
  }

  /** Runs a command once those before it in the same session have ended [C-64]. */
  async exec(caller: BoxCaller, data: unknown): Promise<BoxExecResult> {
    const spec = read(BoxSpec, data)
    if (spec.cmd.trim() === '') throw invalid('cmd', 'cmd must not be empty')
    // Only who may use the session waits for its other commands.
    const { id, session } = await this.#sessions.ensure(caller, spec)
    const { max_execs } = this.#sessions.profile()
    const key = JSON.stringify([caller.principal.tenant, id])
    const before = this.#commands.unfinished(key)
    if (before >= max_execs) {
      throw new BoxofficeError('RATE_LIMITED', `${max_execs} commands of this Box session have not ended; wait for one to end`, {
        retryAfter: 1,
        details: { limit: 'max_execs', max_execs },
      })
    }
    return this.#commands.run(key, async () => {
      // Also where a client has just ended all of its sessions: what waited does not make them again.
      if (before > 0 && (await this.#sessions.find(caller, id))?.id !== session.id)
        throw noSession('the Box session ended before the command began; run it again in a new one')
      return this.#run(caller, spec, { id, session })
    })
  }

  async #run(caller: BoxCaller, spec: BoxSpec, { id, session }: { id: string; session: PlacedSession }): Promise<BoxExecResult> {
    const { dataplane, settings, log, quota } = this.#options
    const seconds = timeoutOf(spec, this.#sessions.profile())
    log.info(
      {
        request_id: caller.origin.requestId,
        session_id: session.id,
        box_session_id: id,
        timeout_sec: seconds,
        cmd: spec.cmd.slice(0, LOGGED_COMMAND),
        env_keys: Object.keys(spec.env ?? {}).sort(),
      },
      'box exec',
    )
    await quota.requireRoom(session)
    using _use = this.#sessions.inUse(caller, session)
    const result = await dataplane
      .session(session.id)
      .exec({
        command: spec.cmd,
        timeout_seconds: seconds,
        max_output_bytes: RAW_OUTPUT_BYTES,
        output_keep: 'head',
        ...(spec.workdir === undefined ? {} : { cwd: spec.workdir }),
        ...(spec.env === undefined ? {} : { env: spec.env }),
      })
      .catch(async (thrown: unknown) => {
        // Dead: the next request gets a new one [2-34]. This one is not run twice.
        // Over its quota: the agent has stopped the command [2-119].
        const over = thrown instanceof BoxofficeError && thrown.details?.reason === 'workspace_quota'
        if (over || (thrown instanceof BoxofficeError && thrown.code === 'SANDBOX_LOST')) await this.#drop(caller, session)
        throw thrown
      })
    if (result.reason === 'sandbox_lost') {
      await this.#drop(caller, session)
      throw new BoxofficeError('SANDBOX_LOST', 'the sandbox was lost while the command ran; run it again in a new one')
    }
    if (result.timed_out && settings.onTimeout === 'drop') await this.#drop(caller, session)
    else await quota.requireKept(session, () => this.#drop(caller, session))
    return toBoxExec(id, session.provider, result, seconds)
  }

  async createSession(caller: BoxCaller, data: unknown) {
    const { id, session } = await this.#sessions.ensure(caller, read(BoxSpec, data))
    return toBoxSession(id, session)
  }

  async getSession(caller: BoxCaller, id: string) {
    const session = await this.#sessions.require(caller, id)
    return { ...toBoxSession(id, session), ...toProcessFields(await this.#processes.of(session)) }
  }

  async listSessions(caller: BoxCaller) {
    return (await this.#sessions.list(caller)).map((session) => toBoxSession(session.scope.id, session))
  }

  async deleteSession(caller: BoxCaller, id: string): Promise<{ deleted: string }> {
    const session = await this.#sessions.require(caller, id)
    await this.#options.sessions.release(caller.principal, session.id, { keepWorkspace: false }, caller.origin)
    return { deleted: id }
  }

  async startProcess(caller: BoxCaller, id: string, data: unknown): Promise<ManagedProcess> {
    const request = read(StartProcessRequest, data)
    const session = await this.#sessions.require(caller, id)
    const process = await this.#options.dataplane.session(session.id).processes.start(request)
    await this.#sessions.touch(caller, session)
    return process
  }

  async getProcess(caller: BoxCaller, id: string, processId: string): Promise<ManagedProcess> {
    const session = await this.#sessions.require(caller, id)
    return this.#options.dataplane.session(session.id).processes.get(read(ProcessId, processId))
  }

  async stopProcess(caller: BoxCaller, id: string, processId: string): Promise<{ stopped: string }> {
    const process = await this.getProcess(caller, id, processId)
    const session = await this.#sessions.require(caller, id)
    await this.#options.dataplane.session(session.id).processes.stop(process.process_id)
    return { stopped: process.process_id }
  }

  /** The session that a socket wants to attach to [2-66]. */
  attachable(caller: BoxCaller, id: string): Promise<PlacedSession> {
    return this.#sessions.require(caller, id)
  }

  async status(caller: BoxCaller) {
    const { settings } = this.#options
    const errors = this.#errors.of(caller.principal.tenant)
    const [backend, live, { length: errorCount }] = await Promise.all([this.backend(), this.#sessions.list(caller), errors])
    const running = await Promise.all(live.map((session) => this.#processes.running(session).catch(() => 0)))
    return {
      available: backend.available,
      profile: settings.profile,
      recent_error_count: errorCount,
      backend,
      active_sessions: live.length,
      managed_processes: running.reduce((sum, count) => sum + count, 0),
      session_ttl_sec: settings.sessionTtlSec,
      limits: {
        max_sessions: settings.maxSessions,
        max_managed_processes: PROCESS_LIMITS.running,
        max_completed_processes: PROCESS_LIMITS.completed,
        completed_kept_sec: PROCESS_LIMITS.completedKeptSeconds,
      },
    }
  }

  /** What sandboxes are made with; without it the surface stays up and says so [2-49, 0-53]. */
  async backend() {
    const { placement, agents } = this.#options
    const chosen = await placement.choose().catch((thrown: unknown) => fromUnknown(thrown))
    const agent =
      chosen instanceof BoxofficeError
        ? (await agents.list()).find((one) => one.provider.reserved === undefined && placement.isHeard(one))
        : chosen
    return {
      available: !(chosen instanceof BoxofficeError),
      name: agent?.provider.name ?? null,
      isolation: agent?.provider.isolation ?? null,
      /** Also a label of each container that it makes [2-28]. */
      instance_id: agent?.instanceId ?? null,
      reason: chosen instanceof BoxofficeError ? chosen.message : null,
    }
  }

  async health() {
    return { status: 'ok' as const, available: (await this.backend()).available }
  }

  errors({ principal }: BoxCaller): Promise<BoxErrorEntry[]> {
    return this.#errors.of(principal.tenant)
  }

  /** Ends the caller's Box sessions, once [2-27]. */
  async shutdown(caller: BoxCaller): Promise<{ closed: number }> {
    const live = await this.#sessions.list(caller)
    await Promise.all(live.map((session) => this.#drop(caller, session)))
    return { closed: live.length }
  }

  #drop(caller: BoxCaller, session: Session): Promise<void> {
    return this.#sessions.drop(caller, session)
  }
}

function read<T>(schema: z.ZodType<T>, data: unknown): T {
  const parsed = schema.safeParse(data ?? {})
  if (parsed.success) return parsed.data
  throw invalid(parsed.error.issues[0]?.path.join('.') || 'body', describeIssues(parsed.error))
}

const queryIdOf = (data: unknown): string | null => {
  const id = typeof data === 'object' && data !== null && 'query_id' in data ? data.query_id : null
  return typeof id === 'string' || typeof id === 'number' ? String(id).slice(0, 256) : null
}
