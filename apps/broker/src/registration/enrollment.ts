import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { BoxofficeError } from '@boxoffice/protocol'
import type { NodeAgent, NodeAgents } from '../access/node-agents.ts'
import { hashKey } from '../access/principals.ts'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import type { EnrollTokenRecord, EnrollTokenStore } from '../store/store.ts'

export type NewEnrollToken = { name: string; oneUse: boolean; expiresInSeconds: number | null }

export type EnrollmentOptions = {
  /** The configured token. */
  configured: string
  tokens: EnrollTokenStore
  /** Undefined: no agent comes by the word of a cluster. */
  nodeAgents: NodeAgents | undefined
  now: () => number
}

/** By what an agent may register: the id of an enroll token, null for the configured one; or what its cluster says of it. */
export type Admission = { enrollTokenId: string | null; node?: undefined } | { enrollTokenId: null; node: NodeAgent }

const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** Who may register: whoever holds the configured enroll token, one that an operator has made, or the token of an agent's service account. */
export class Enrollment {
  readonly #configured: string
  readonly #tokens: EnrollTokenStore
  readonly #nodeAgents: NodeAgents | undefined
  readonly #now: () => number

  constructor({ configured, tokens, nodeAgents, now }: EnrollmentOptions) {
    this.#configured = configured
    this.#tokens = tokens
    this.#nodeAgents = nodeAgents
    this.#now = now
  }

  /**
   * 401 for an unknown token, 403 for a revoked one. Whether a spent or expired one still serves depends on the install that registers
   * with it, so its registration tells.
   */
  async admit(token: string): Promise<Admission> {
    if (sameSecret(token, this.#configured)) return { enrollTokenId: null }
    if (this.#nodeAgents !== undefined && JWT.test(token)) return { enrollTokenId: null, node: await this.#nodeAgents.verify(token) }
    const record = await this.#tokens.byHash(hashKey(token))
    if (record === undefined)
      throw new BoxofficeError('UNAUTHENTICATED', 'the enroll token is not one of this broker; see its --enroll-token')
    if (record.revokedAt !== null) throw notEnrolled('revoked')
    return { enrollTokenId: record.id }
  }

  /** The record, and the token itself: the only time that anybody sees it. */
  async create({ name, oneUse, expiresInSeconds }: NewEnrollToken, origin: Origin): Promise<{ record: EnrollTokenRecord; token: string }> {
    const token = `bxe_${randomBytes(32).toString('base64url')}`
    const ts = this.#now()
    const record: EnrollTokenRecord = {
      id: `ent_${randomUUID()}`,
      hash: hashKey(token),
      name,
      oneUse,
      createdAt: ts,
      expiresAt: expiresInSeconds === null ? null : ts + expiresInSeconds * 1000,
      usedAt: null,
      usedBy: null,
      revokedAt: null,
    }
    await this.#tokens.insert(record, [auditEntry('enroll_token.create', origin, { ts, data: { enroll_token_id: record.id, name } })])
    return { record, token }
  }

  list(): Promise<EnrollTokenRecord[]> {
    return this.#tokens.list()
  }

  /** False when there is no such token, or it is revoked already. */
  revoke(id: string, origin: Origin): Promise<boolean> {
    const ts = this.#now()
    return this.#tokens.revoke(id, ts, [auditEntry('enroll_token.revoke', origin, { ts, data: { enroll_token_id: id } })])
  }
}

/** The refusal of a token that was good once. */
export const notEnrolled = (state: 'revoked' | 'expired' | 'spent'): BoxofficeError =>
  new BoxofficeError('FORBIDDEN', `the enroll token is ${state}; an operator makes another one: boxoffice agents enroll-token create`, {
    details: { reason: `enroll_token_${state}` },
  })

/** Equal, in a time that does not depend on where they differ. */
export const sameSecret = (given: string, expected: string): boolean =>
  timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'))
