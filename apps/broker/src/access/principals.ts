import { hash, randomBytes } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { BoxofficeError, type Capability } from '@boxoffice/protocol'
import type { KeyRecord, KeyRight, KeyRole, KeyStore } from '../store/store.ts'
import type { Credential } from './credential.ts'

/** Whom a credential stands for. */
export type Identity = {
  id: string
  tenant: string
  role: KeyRole
  rights: ReadonlySet<KeyRight>
  actorType: 'human' | 'agent'
  /** What its credential is restricted to; null: to nothing. */
  capabilities: readonly Capability[] | null
}

/** Who authenticated, and with what. `requireValid`: 401 when the credential has been revoked since; not for the product's own callers. */
export type Principal = Identity & { credential: Credential; requireValid?: () => Promise<void> }

/** The tenant of the deployment itself: its operators make keys for every tenant. */
export const ROOT_TENANT = 'default'

const ALL_RIGHTS: readonly KeyRight[] = ['act_as', 'release', 'box']

/** An operator may do everything in its tenant [contract 2.8]. */
export const hasRight = (principal: Identity, right: KeyRight): boolean => principal.role === 'operator' || principal.rights.has(right)
export const isRootOperator = (principal: Identity): boolean => principal.role === 'operator' && principal.tenant === ROOT_TENANT

/** `bxo_` and 43 base64url characters: 256 random bits. */
export const newApiKey = (): string => `bxo_${randomBytes(32).toString('base64url')}`
export const hashKey = (key: string): string => hash('sha256', key, 'base64url')
export const newKeyId = (): string => `key_${crypto.randomUUID()}`

/** How long a key counts as valid after it was looked up; another broker's revocation is effective within this time. */
const CACHE_MS = 1000
const CACHE_SIZE = 10_000

/** Checks the tokens of an identity provider. */
export interface TokenVerifier {
  /** 401 for a token that does not hold. */
  verify(token: string): Promise<Identity>
}

const JWT = /^[\w-]+\.[\w-]+\.[\w-]+$/

/**
 * Finds whom a server credential stands for: an API key, or a token of the configured identity provider. Keys are compared by
 * their SHA-256, so neither a lookup nor a comparison leaks by its time how much of a guess was right.
 */
export class Principals {
  readonly #keys: KeyStore
  readonly #configured = new Map<string, Identity>()
  readonly #cache = new BoundedCache<string, { identity: Identity; until: number }>(CACHE_SIZE)
  readonly #tokens: TokenVerifier | undefined

  constructor(keys: KeyStore, configuredKey: string | undefined, tokens: TokenVerifier | undefined) {
    this.#keys = keys
    this.#tokens = tokens
    if (configuredKey !== undefined) this.#configured.set(hashKey(configuredKey), configuredOperator)
  }

  /** Whom a valid credential stands for; 401 `UNAUTHENTICATED` for anything else. */
  async authenticate(credential: string): Promise<Identity> {
    if (!JWT.test(credential)) return this.#ofKey(credential)
    if (this.#tokens !== undefined) return this.#tokens.verify(credential)
    // A session token never is one [4-33].
    throw new BoxofficeError('UNAUTHENTICATED', 'a token is no server credential here: no identity provider is configured; send an API key')
  }

  /** 401 when the credential has been revoked since it was authenticated; a token of an identity provider is good for its request. */
  async requireValid(credential: string): Promise<void> {
    if (!JWT.test(credential)) await this.#ofKey(credential)
  }

  async #ofKey(key: string): Promise<Identity> {
    const hash = hashKey(key)
    const configured = this.#configured.get(hash)
    if (configured !== undefined) return configured
    const now = performance.now()
    const cached = this.#cache.get(hash)
    if (cached !== undefined && cached.until > now) return cached.identity
    const record = await this.#keys.byHash(hash)
    if (record === undefined || record.revokedAt !== null) {
      this.#cache.delete(hash)
      throw new BoxofficeError('UNAUTHENTICATED', 'the credential is not a valid API key; send Authorization: Bearer <API key>')
    }
    const identity = identityOf(record)
    this.#cache.set(hash, { identity, until: now + CACHE_MS })
    return identity
  }

  /** Revocation in this process is effective at once. */
  forget(hash: string): void {
    this.#cache.delete(hash)
  }
}

const configuredOperator: Identity = {
  id: 'operator',
  tenant: ROOT_TENANT,
  role: 'operator',
  rights: new Set(ALL_RIGHTS),
  actorType: 'human',
  capabilities: null,
}

const identityOf = (record: KeyRecord): Identity => ({
  id: record.principal,
  tenant: record.tenant,
  role: record.role,
  rights: new Set(record.rights),
  actorType: record.actorType,
  capabilities: record.capabilities,
})
