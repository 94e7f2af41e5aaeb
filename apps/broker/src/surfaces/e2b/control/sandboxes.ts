import { BoxofficeError, hasNetwork, type Profile } from '@boxoffice/protocol'
import { systemOrigin } from '../../../domain/audit-entry.ts'
import { noSession } from '../../../domain/refusals.ts'
import { isLive, type Session, type SuspendMode } from '../../../domain/session.ts'
import { sessionEntry } from '../../../domain/session-entry.ts'
import type { SessionService } from '../../../sessions/service.ts'
import type { SessionWriter } from '../../../sessions/session-writer.ts'
import type { E2bSandbox } from '../../../store/e2b-store.ts'
import type { Store } from '../../../store/store.ts'
import type { Caller } from '../../facade/callers.ts'
import type { Attached, FacadeSessions } from '../../facade/facade-sessions.ts'
import type { SandboxEnvironments } from '../../facade/sandbox-environments.ts'
import { type AccessTokens, isSandboxId, newSandboxId } from '../call/access-tokens.ts'
import { unsupported } from '../call/unsupported.ts'
import type { CreateRequest } from './create-request.ts'

export type SandboxesOptions = {
  store: Pick<Store, 'e2b' | 'sessions' | 'agents'>
  sessions: SessionService
  threads: FacadeSessions
  writer: SessionWriter
  tokens: AccessTokens
  environments: SandboxEnvironments
  profiles: ReadonlyMap<string, Profile>
  now: () => number
}

export type Found = { sandbox: E2bSandbox; session: Session }
export type Connected = { sandbox: E2bSandbox; token: string; resumed: boolean }
export type ListOptions = { after: { startedAt: number; id: string } | null; limit: number }

/** What E2B calls the profile that a request does not name. */
const BASE_TEMPLATE = 'base'
const DUE_BATCH = 100

/** Sandboxes as E2B's clients know them: each is the session of a thread, with an end of its own (contract 7.3). */
export class Sandboxes {
  readonly #options: SandboxesOptions

  constructor(options: SandboxesOptions) {
    this.#options = options
  }

  /** A new sandbox, or the one of the thread that `metadata.thread_id` names. NOT_FOUND for an unknown template. */
  async create(caller: Caller, request: CreateRequest): Promise<Connected> {
    const { store, threads, now } = this.#options
    const { templateID: template, metadata, timeout } = request
    const profile = this.#profileOf(template, request.allow_internet_access)
    const id = newSandboxId()
    const threadId = metadata.thread_id ?? threads.threadOf(id)
    const wasMissing = metadata.thread_id === undefined || (await threads.find(caller, threadId)) === undefined
    const attached = await threads.make(caller, threadId, { mode: 'ensure', profile })
    await this.#keepEnvironment(attached, request)
    const known = await store.e2b.bySession(attached.session.id)
    if (known !== undefined) return this.#extend(known, attached, timeout)
    const { principal } = caller
    const startedAt = now()
    const sandbox: E2bSandbox = {
      id,
      tenant: principal.tenant,
      principal: principal.id,
      sessionId: attached.session.id,
      threadId,
      template,
      metadata,
      autoPause: request.autoPause ?? false,
      // Somebody else may have made it between the two.
      madeSession: wasMissing && attached.session.createdBy === principal.id,
      startedAt,
      endAt: this.#endAt(attached.session, timeout),
      paused: false,
    }
    await store.e2b.insert(sandbox)
    return { sandbox, token: await this.#options.tokens.give(id, attached.actor), resumed: false }
  }

  /** A new token for a sandbox, which is resumed where it is paused; its end only moves away. */
  async connect(caller: Caller, id: string, timeout: number): Promise<Connected> {
    const { sandbox } = await this.find(caller, id)
    return this.#extend(sandbox, await this.#options.threads.attach(caller, sandbox.threadId), timeout)
  }

  /** BINDING_NOT_FOUND for one that is not there, has ended or is somebody else's; FORBIDDEN for who may use its session no more. */
  async find({ principal }: Caller, id: string): Promise<Found> {
    const { store, sessions } = this.#options
    const sandbox = isSandboxId(id) ? await store.e2b.byId(id) : undefined
    const isTheirs = sandbox?.tenant === principal.tenant && (principal.role === 'operator' || sandbox.principal === principal.id)
    const found = sandbox !== undefined && isTheirs ? await this.#live(sandbox) : undefined
    if (found === undefined) throw noSession('there is no such sandbox')
    // It may be the session of another's thread, who has removed this member.
    await sessions.follow(principal, found.session.id)
    return found
  }

  /** Live ones that the caller may use, oldest first. One more than `limit`, where there are more. */
  async list({ principal }: Caller, { after, limit }: ListOptions): Promise<{ page: Found[]; last: E2bSandbox | undefined }> {
    const who = principal.role === 'operator' ? null : principal.id
    const rows = await this.#options.store.e2b.list({ tenant: principal.tenant, principal: who, after, limit })
    const page = (await Promise.all(rows.map((row) => this.#live(row)))).filter((found) => found !== undefined)
    return { page, last: rows.length === limit ? rows.at(-1) : undefined }
  }

  /** Ends at `timeout` seconds from now, also earlier than before. */
  async setTimeout(caller: Caller, id: string, timeout: number): Promise<void> {
    const { sandbox, session } = await this.find(caller, id)
    await this.#options.store.e2b.set(id, { endAt: this.#endAt(session, timeout), paused: sandbox.paused })
  }

  /** Pauses it until somebody connects. False where it is paused already. */
  async pause(caller: Caller, id: string, mode: SuspendMode): Promise<boolean> {
    const { sessions, store } = this.#options
    const { sandbox } = await this.find(caller, id)
    if (sandbox.paused) return false
    await sessions.suspend(caller.principal, sandbox.sessionId, mode, caller.origin)
    await store.e2b.set(id, { endAt: sandbox.endAt, paused: true })
    return true
  }

  async kill(caller: Caller, id: string): Promise<void> {
    const { threads, store } = this.#options
    const { sandbox, session } = await this.find(caller, id)
    await threads.release(caller, session)
    await store.e2b.remove(sandbox.id)
  }

  /** Ends or pauses those whose time is up. */
  async expire(): Promise<void> {
    const { store, now } = this.#options
    const due = await store.e2b.due(now(), DUE_BATCH)
    const results = await Promise.allSettled(due.map((sandbox) => this.#expire(sandbox)))
    // One that cannot be ended now does not keep the others; it is due again.
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }

  async #expire(sandbox: E2bSandbox): Promise<void> {
    const { store, writer, now } = this.#options
    const session = (await this.#live(sandbox))?.session
    if (session === undefined) return
    const origin = systemOrigin(sandbox.tenant)
    const agent = await store.agents.byId(session.agentId)
    if (sandbox.autoPause && agent?.provider.suspend.includes('freeze')) {
      const audit = (after: Session) => [sessionEntry('sandbox.session.suspend', origin, after, { ts: now() })]
      await writer.change(session, { type: 'suspend_requested', mode: 'freeze' }, { audit })
      return void (await store.e2b.set(sandbox.id, { endAt: sandbox.endAt, paused: true }))
    }
    // The session of a thread that was there before goes on by its own rules.
    if (sandbox.madeSession) {
      const audit = (after: Session) => [sessionEntry('sandbox.session.end', origin, after, { ts: now(), code: 'e2b_timeout' })]
      await writer.change(session, { type: 'released' }, { audit })
    }
    await store.e2b.remove(sandbox.id)
  }

  async #extend(sandbox: E2bSandbox, attached: Attached, timeout: number): Promise<Connected> {
    const { store, tokens } = this.#options
    const asked = this.#endAt(attached.session, timeout)
    const endAt = sandbox.paused ? asked : Math.max(sandbox.endAt, asked)
    await store.e2b.set(sandbox.id, { endAt, paused: false })
    return { sandbox: { ...sandbox, endAt, paused: false }, token: await tokens.give(sandbox.id, attached.actor), resumed: sandbox.paused }
  }

  /** The sandbox with its session; one whose session has ended is forgotten. */
  async #live(sandbox: E2bSandbox): Promise<Found | undefined> {
    const { store } = this.#options
    const session = await store.sessions.byId(sandbox.sessionId)
    if (session !== undefined && isLive(session)) return { sandbox, session }
    await store.e2b.remove(sandbox.id)
    return undefined
  }

  /** They are in each later command of every member, so that only those who may run commands name them. */
  async #keepEnvironment({ session, actor: { capabilities } }: Attached, { envVars }: CreateRequest): Promise<void> {
    if (envVars == null || Object.keys(envVars).length === 0) return
    if (!capabilities.includes('exec') && !capabilities.includes('shell'))
      throw new BoxofficeError('CAPABILITY_DENIED', 'envs: the caller may run no command in this sandbox')
    await this.#options.environments.keep(session.id, envVars)
  }

  #endAt({ hardExpiresAt }: Session, timeout: number): number {
    return Math.min(this.#options.now() + timeout * 1000, hardExpiresAt)
  }

  #profileOf(template: string, internet: boolean | null | undefined): string {
    const name = template === BASE_TEMPLATE ? 'default' : template
    const profile = this.#options.profiles.get(name)
    if (profile === undefined)
      throw new BoxofficeError('NOT_FOUND', `there is no template "${template}"; a template is a profile's name, or base`)
    if (internet === false && hasNetwork(profile))
      throw unsupported('allowInternetAccess: false', `the profile ${name} has a network; choose a template without`)
    return name
  }
}
