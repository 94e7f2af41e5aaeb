import { randomUUID } from 'node:crypto'
import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { BoxofficeError, type ExecResult } from '@boxoffice/protocol'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { internalRequest, type NegotiateRequest } from '../../sessions/negotiate-request.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Caller } from '../facade/callers.ts'
import type { Step } from './step.ts'
import { closedOutcome, type StepOutcome, type StepResult, toExecRequest, toLostOutcome, toOutcome } from './step-result.ts'

export type StepsOptions = {
  sessions: SessionService
  dataplane: DataplaneClient
  /** Whether a session is no more. */
  isOver: (sessionId: string) => Promise<boolean>
  /** Resolves when what a released session had on its agent is gone. */
  ended: (sessionId: string) => Promise<void>
  timeoutSeconds: number
  /** Of new sessions; null: the default one. */
  profile: string | null
  log: Log
}

/** Seconds that a caller waits for a sandbox that starts. */
const START_WAIT = 60
/** Closing a session is quick, also where its steps do not mind being asked [3-20]. */
const END_GRACE = 1
const PREFIX = 'sbs/'
/** As many as one server has at most. */
export const MAX_SESSIONS = 100_000
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/**
 * What seed 003 calls a session is a session of the thread `sbs/<uuid>`; its one sandbox is that session's. Nothing is kept here but
 * whose turn it is, so a restart loses nothing.
 */
export class Steps {
  readonly #options: StepsOptions
  readonly #queue = new KeyedQueue()
  /** Found out at the first bash step of a sandbox that has none. */
  readonly #withoutBash = new Set<string>()

  constructor(options: StepsOptions) {
    this.#options = options
  }

  /** A session with a sandbox and an empty directory of its own; gives its id [3-01..3-04]. */
  async create({ principal, origin }: Caller): Promise<string> {
    const id = randomUUID()
    const { session } = await this.#options.sessions.negotiate(principal, this.#request(id, 'create_only'), origin)
    this.#log(id, 'session_created', { status: 'ACTIVE', session: session.id, sandbox: session.sandboxId })
    return id
  }

  /** Runs one step in its turn. A step that fails is a response; only what never began is refused [3-09, 3-13, 3-21]. */
  async run(id: string, step: Step, caller: Caller): Promise<StepResult> {
    this.#log(id, 'step_received', { type: step.type })
    return this.#queue.run(id, async () => {
      const { session } = await this.#attach(id, caller)
      const started = performance.now()
      this.#log(id, 'step_started', { type: step.type })
      const { result, failure } = await this.#execute(session.id, step)
      const took = { type: step.type, exit_code: result.exit_code, duration_ms: Math.round(performance.now() - started) }
      if (failure !== null) this.#log(id, 'execution_failed', { ...took, failure })
      this.#log(id, 'step_finished', took)
      return result
    })
  }

  /** Ends the session at once, with whatever runs in it, and its directory [3-17, 3-20]. Waits for nobody's turn. */
  async close(id: string, caller: Caller): Promise<void> {
    const { sessions, ended } = this.#options
    const { session } = await this.#attach(id, caller)
    await sessions.release(caller.principal, session.id, { keepWorkspace: false }, caller.origin)
    await ended(session.id)
    this.#withoutBash.delete(session.id)
    this.#log(id, 'session_closed', { status: 'CLOSED' })
  }

  /** Ends every session that there is, for a server that ends with them [3-64]. */
  async closeAll(caller: Caller): Promise<void> {
    const label = { key: 'surface', value: 'sbs' }
    const filter = { state: null, scopeType: 'thread', scopeId: null, label, limit: MAX_SESSIONS, after: null }
    const open = await this.#options.sessions.list(caller.principal, filter)
    await Promise.allSettled(open.map(({ scope }) => this.close(scope.id.slice(PREFIX.length), caller)))
  }

  async #attach(id: string, { principal, origin }: Caller) {
    if (!UUID.test(id)) throw new BoxofficeError('BINDING_NOT_FOUND', 'no such session')
    return this.#options.sessions.negotiate(principal, this.#request(id, 'get'), origin)
  }

  async #execute(sessionId: string, step: Step): Promise<StepOutcome> {
    try {
      return toOutcome(await this.#exec(sessionId, step))
    } catch (thrown) {
      const outcome = thrown instanceof BoxofficeError ? toLostOutcome(thrown) : null
      if (outcome !== null) return outcome
      // However the connection broke: the step of a session that is no more was ended with it.
      if (await this.#options.isOver(sessionId)) return closedOutcome
      throw thrown
    }
  }

  /** Where there is no bash nothing ran, and the step goes to the shell that there is [3-11]. */
  async #exec(sessionId: string, step: Step): Promise<ExecResult> {
    const { dataplane, timeoutSeconds } = this.#options
    const run = (shell: string) => dataplane.session(sessionId).exec(toExecRequest(step, shell, timeoutSeconds))
    if (step.type !== 'bash') return run('')
    if (this.#withoutBash.has(sessionId)) return run('/bin/sh')
    const result = await run('/bin/bash')
    if (result.spawn_error?.kind !== 'not_found') return result
    this.#withoutBash.add(sessionId)
    return run('/bin/sh')
  }

  #request(id: string, mode: 'get' | 'create_only'): NegotiateRequest {
    const made = mode === 'get' ? {} : { profile: this.#options.profile, overrides: { profile: { end_grace_seconds: END_GRACE } } }
    return internalRequest(PREFIX + id, { mode, labels: { surface: 'sbs' }, wait: START_WAIT, ...made })
  }

  #log(sessionId: string, event: string, more: Record<string, unknown>): void {
    this.#options.log.info({ event, session_id: sessionId, ...more }, event)
  }
}
