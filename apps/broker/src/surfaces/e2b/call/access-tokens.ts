import { createHash, randomBytes, randomInt } from 'node:crypto'
import { BoxofficeError } from '@boxoffice/protocol'
import { type DataplaneActor, heldTo } from '../../../dataplane/access.ts'
import { isPlaced, type PlacedSession } from '../../../domain/session.ts'
import type { E2bSandbox, E2bStore, E2bToken } from '../../../store/e2b-store.ts'
import type { GrantStore, SessionStore } from '../../../store/session-store.ts'

/** Tokens of one sandbox at most: each `connect` gives another one. */
const MAX_TOKENS = 1000
const ID_LENGTH = 20
const ID_CHARACTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'
const ID = /^[a-z0-9]{20}$/

/** Twenty lower-case letters and digits: about 103 random bits. */
export const newSandboxId = (): string => Array.from({ length: ID_LENGTH }, () => ID_CHARACTERS[randomInt(ID_CHARACTERS.length)]).join('')
export const isSandboxId = (text: string): boolean => ID.test(text)

/** A sandbox that the bearer of a token may use, and for whom its dataplane is used. */
export type Opened = { sandbox: E2bSandbox; session: PlacedSession; actor: DataplaneActor }

export type AccessTokensOptions = { store: { e2b: E2bStore; sessions: Pick<SessionStore, 'byId'>; grants: Pick<GrantStore, 'find'> } }

/**
 * Access tokens of sandboxes (contract 7.3): E2B's clients get one with a sandbox and never renew it, so it is good until the
 * sandbox ends, or its holder may not use the session any more. Only its hash is kept.
 */
export class AccessTokens {
  readonly #options: AccessTokensOptions

  constructor(options: AccessTokensOptions) {
    this.#options = options
  }

  /** A new token for a sandbox: 256 random bits. */
  async give(sandboxId: string, { actor, capabilities, allowedAt }: DataplaneActor): Promise<string> {
    const token = randomBytes(32).toString('base64url')
    const record = { hash: hashOf(token), sandboxId, actor, capabilities, madeAt: allowedAt * 1000 }
    await this.#options.store.e2b.addToken(record, MAX_TOKENS)
    return token
  }

  /**
   * The sandbox of a request by its two headers. UNAUTHENTICATED: the token is none of this sandbox. SESSION_EXPIRED: there is no such
   * sandbox any more, or it is paused. FORBIDDEN: who got the token has lost its access since.
   */
  async open(sandboxId: string | undefined, token: string | undefined): Promise<Opened> {
    const { store } = this.#options
    if (sandboxId === undefined || !isSandboxId(sandboxId)) throw noSandbox()
    const known = token === undefined ? undefined : await store.e2b.byToken(hashOf(token))
    if (known === undefined || known.sandbox.id !== sandboxId) {
      const { sandbox } = await this.#live(await store.e2b.byId(sandboxId))
      throw new BoxofficeError('UNAUTHENTICATED', `X-Access-Token is no token of the sandbox ${sandbox.id}`)
    }
    const { sandbox, session } = await this.#live(known.sandbox)
    if (sandbox.paused) throw noSandbox('is paused; connect to it to resume it')
    return { sandbox, session, actor: await this.#holder(session, known.token) }
  }

  async #holder({ id }: PlacedSession, { actor, capabilities, madeAt }: E2bToken): Promise<DataplaneActor> {
    const allowedAt = madeAt / 1000
    const held = heldTo(await this.#options.store.grants.find(id, actor), { actor, capabilities, allowedAt })
    if (held.capabilities.length === 0)
      throw new BoxofficeError('FORBIDDEN', 'the holder of this X-Access-Token may not use the sandbox any more')
    return { actor, capabilities: held.capabilities, allowedAt }
  }

  async #live(sandbox: E2bSandbox | undefined): Promise<{ sandbox: E2bSandbox; session: PlacedSession }> {
    const session = sandbox && (await this.#options.store.sessions.byId(sandbox.sessionId))
    if (sandbox === undefined || session === undefined || !isPlaced(session)) throw noSandbox()
    return { sandbox, session }
  }
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('base64url')

const noSandbox = (why = 'does not run any more'): BoxofficeError => new BoxofficeError('SESSION_EXPIRED', `the sandbox ${why}`)
