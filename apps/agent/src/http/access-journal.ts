import { hash } from 'node:crypto'
import { plainAddress } from '@boxoffice/kit/plain-address'
import { TokenBuckets } from '@boxoffice/kit/token-buckets'
import { type BoxofficeError, type Capability, SANDBOX_ID_PATTERN, type SessionTokenClaims } from '@boxoffice/protocol'
import type { Journal } from '../broker-link/journal.ts'
import type { SandboxDirectory } from '../sandbox/sandbox.ts'

/** Who asked for what, as far as it is known at that point. */
export type Access = {
  sandboxId: string
  requestId: string
  transport: 'http' | 'ws'
  ip: string | undefined
  /** What the route or socket needs. */
  requires: Capability | undefined
  /** As it came, valid or not. */
  token: string | undefined
  claims: SessionTokenClaims | undefined
}

/** What the audit log learns of the dataplane [C-72]: off the way of the requests, and bounded per source. */
export interface AccessJournal {
  /** The first use of a token on a part of the dataplane from an address; what follows is the same access. */
  opened(access: Access & { claims: SessionTokenClaims }): void
  /** Of refusals, those that tell of somebody who has no right: 401, 403, and paths that lead outside (contract 9). */
  refused(access: Access, error: BoxofficeError): void
}

/** Per address. A broker that relays is one address for all its clients; it audits refusals of its own. */
const OPENED = { perSecond: 10, burst: 100 }
const REFUSED = { perSecond: 1, burst: 20 }

/** Of one token: a client that changes its address all the time is written about no more. */
const MAX_ADDRESSES = 32
const REASON_CHARACTERS = 300

export const createAccessJournal = (journal: Pick<Journal, 'write' | 'countSuppressed'>, sandboxes: SandboxDirectory): AccessJournal => {
  // The claims object of a token is one and the same for as long as the token is remembered.
  const seen = new WeakMap<SessionTokenClaims, Map<string, Set<string>>>()
  const mayOpen = new TokenBuckets(OPENED)
  const mayRefuse = new TokenBuckets(REFUSED)

  const isKnown = ({ claims, transport, requires, ip = '' }: Access & { claims: SessionTokenClaims }): boolean => {
    const addresses = seen.get(claims) ?? new Map<string, Set<string>>()
    const kinds = addresses.get(ip) ?? new Set()
    const kind = KINDS[transport][requires ?? 'exec']
    if (kinds.has(kind) || (kinds.size === 0 && addresses.size >= MAX_ADDRESSES)) return true
    seen.set(claims, addresses.set(ip, kinds.add(kind)))
    return false
  }

  const write = (access: Access, fact: { type: 'dataplane.open' } | { type: 'dataplane.refused'; error: BoxofficeError }): void => {
    const { sandboxId, requestId, transport, ip, requires, token, claims } = access
    // What is no id of ours is a stranger's text, and does not belong into the log.
    const named = SANDBOX_ID_PATTERN.test(sandboxId) ? sandboxId : null
    const subject = { sessionId: named === null ? null : (sandboxes.get(named)?.sessionId ?? null), sandboxId: named }
    const common = {
      route: ROUTES[requires ?? 'none'],
      ip: ip === undefined ? null : plainAddress(ip),
      request_id: requestId,
      sub: claims?.sub ?? null,
      jti: claims?.jti ?? null,
      token_hash: token !== undefined && JWT.test(token) ? hash('sha256', token, 'base64url') : null,
    }
    if (fact.type === 'dataplane.open') return journal.write(subject, { type: 'dataplane.open', data: { ...common, transport } })
    const { code, message } = fact.error
    journal.write(subject, { type: 'dataplane.refused', data: { ...common, code, reason: message.slice(0, REASON_CHARACTERS) } })
  }

  return {
    opened(access) {
      if (isKnown(access)) return
      if (!mayOpen.take(access.ip ?? '').ok) return journal.countSuppressed()
      setImmediate(write, access, { type: 'dataplane.open' })
    },
    refused(access, error) {
      if (error.status !== 401 && error.status !== 403 && error.code !== 'INVALID_PATH') return
      if (!mayRefuse.take(access.ip ?? '').ok) return journal.countSuppressed()
      setImmediate(write, access, { type: 'dataplane.refused', error })
    },
  }
}

const ROUTES: Readonly<Record<Capability | 'none', string>> = {
  exec: 'exec',
  shell: 'shell',
  fs_read: 'files',
  fs_write: 'files',
  ports: 'ports',
  none: 'unknown',
}
const KINDS: Readonly<Record<Access['transport'], Readonly<Record<Capability, string>>>> = {
  http: { exec: 'http exec', shell: 'http shell', fs_read: 'http files', fs_write: 'http files', ports: 'http ports' },
  ws: { exec: 'ws exec', shell: 'ws shell', fs_read: 'ws files', fs_write: 'ws files', ports: 'ws ports' },
}

const JWT = /^[\w-]{1,4096}\.[\w-]{1,4096}\.[\w-]{1,512}$/
