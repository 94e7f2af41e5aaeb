import { createHmac, generateKeyPairSync } from 'node:crypto'
import { BoxofficeError, newSandboxId, newSessionId } from '@boxoffice/protocol'
import { SignJWT } from 'jose'
import { beforeEach, describe, expect, test } from 'vitest'
import { type Authenticator, createAuthenticator } from '../../../src/auth/auth.ts'
import { createKeySource, type KeySource } from '../../../src/auth/keys.ts'
import { createRevocationStore, type RevocationStore } from '../../../src/auth/revocations.ts'
import { createTestIssuer, ISSUER, type TestIssuer } from '../../support/tokens.ts'

const sandboxId = newSandboxId()
const sessionId = newSessionId()

let issuer: TestIssuer
let now: number
let revocations: RevocationStore
let auth: Authenticator

const authenticator = (keys: KeySource = createKeySource({ load: () => Promise.resolve(issuer.jwks) })): Authenticator =>
  createAuthenticator({
    keys,
    revocations,
    sandboxes: { get: () => undefined, isAwaited: () => false },
    issuer: () => ISSUER,
    thumbprint: 'of-this-agent',
    now: () => now,
  })

beforeEach(() => {
  issuer = createTestIssuer({ sandboxId, sessionId })
  now = Math.floor(Date.now() / 1000)
  revocations = createRevocationStore(() => now)
  auth = authenticator()
})

const codeOf = async (token: string, id = sandboxId): Promise<string> => {
  try {
    await auth.authenticate(token, id)
    return 'accepted'
  } catch (error) {
    if (error instanceof BoxofficeError) return error.code
    throw error
  }
}

const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('forged tokens', { tags: ['4-53'] }, () => {
  const other = generateKeyPairSync('ed25519')
  const forgeries: [string, () => string | Promise<string>][] = [
    ['empty', () => ''],
    ['not a token', () => 'abc'],
    ['five parts', () => 'a.b.c.d.e'],
    ['alg none', () => `${base64url({ alg: 'none', kid: issuer.kid })}.${base64url(issuer.claims())}.`],
    [
      'HS256 with the public key as secret',
      () => {
        const signed = `${base64url({ alg: 'HS256', kid: issuer.kid })}.${base64url(issuer.claims())}`
        const secret = issuer.publicKey.export({ format: 'pem', type: 'spki' })
        return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
      },
    ],
    [
      'another key under our kid',
      () => new SignJWT({ ...issuer.claims() }).setProtectedHeader({ alg: 'EdDSA', kid: issuer.kid }).sign(other.privateKey),
    ],
    ['foreign kid', () => issuer.sign({}, { kid: 'foreign' })],
    ['no kid', () => issuer.sign({}, { kid: undefined })],
    ['jku', () => issuer.sign({}, { jku: 'https://evil.example/jwks.json' })],
    ['x5u', () => issuer.sign({}, { x5u: 'https://evil.example/cert' })],
    ['jwk in the header', () => issuer.sign({}, { jwk: other.publicKey.export({ format: 'jwk' }) })],
    [
      'claims changed after signing',
      async () => (await issuer.sign()).replace(/\.[^.]+\./, `.${base64url(issuer.claims({ caps: ['exec'] }))}.`),
    ],
    ['other issuer', () => issuer.sign({ iss: 'http://evil.example' })],
    ['no session', () => issuer.sign({ sid: undefined })],
    ['unknown version', () => issuer.sign({ ver: 2 })],
    ['for an agent with another key', () => issuer.sign({ cnf: { jkt: 'of-another-agent' } })],
    ['sandbox_id is not aud', () => issuer.sign({ sandbox_id: newSandboxId() })],
    ['issued 31 s in the future', () => issuer.sign({ iat: now + 31 })],
    ['not before 31 s in the future', () => issuer.sign({ nbf: now + 31 })],
  ]

  test.each(forgeries)('%s is UNAUTHENTICATED', async (_name, forge) => {
    expect(await codeOf(await forge())).toBe('UNAUTHENTICATED')
  })

  test('a capability that this agent does not know opens nothing, beside those that it knows', async () => {
    expect((await auth.authenticate(await issuer.sign({ caps: ['root'] }), sandboxId)).caps).toEqual([])
    expect((await auth.authenticate(await issuer.sign({ caps: ['root', 'fs_read'] }), sandboxId)).caps).toEqual(['fs_read'])
  })

  test('one that names the key of this agent is accepted', { tags: ['C-50'] }, async () => {
    expect(await codeOf(await issuer.sign({ cnf: { jkt: 'of-this-agent' } }))).toBe('accepted')
  })

  test('30 s of leeway on iat and nbf', { tags: ['C-48'] }, async () => {
    expect(await codeOf(await issuer.sign({ iat: now + 29, nbf: now + 29 }))).toBe('accepted')
  })
})

describe('expiry', { tags: ['4-50', 'C-48'] }, () => {
  test('a token is good until 5 s after exp, and no longer from a warm cache either', async () => {
    const token = await issuer.sign({ exp: now + 10 })
    expect(await codeOf(token)).toBe('accepted')
    now += 14
    expect(await codeOf(token)).toBe('accepted')
    now += 1
    expect(await codeOf(token)).toBe('TOKEN_EXPIRED')
    auth = authenticator()
    expect(await codeOf(token)).toBe('TOKEN_EXPIRED')
  })
})

test('a valid token of another sandbox is FORBIDDEN', { tags: ['C-47', '4-51'] }, async () => {
  expect(await codeOf(await issuer.sign(), newSandboxId())).toBe('FORBIDDEN')
})

describe('the deny-list is asked every time', { tags: ['C-30'] }, () => {
  test('a warm token of a released session is SESSION_RELEASED with its reason', async () => {
    const token = await issuer.sign()
    expect(await codeOf(token)).toBe('accepted')
    revocations.apply({ sessions: [{ session_id: sessionId, reason: 'hard_ttl', until: now + 600 }], tokens: [] })
    await expect(async () => auth.authenticate(token, sandboxId)).rejects.toMatchObject({
      code: 'SESSION_RELEASED',
      details: { reason: 'hard_ttl' },
    })
  })

  test('a failed session is SANDBOX_LOST', async () => {
    revocations.apply({ sessions: [{ session_id: sessionId, reason: 'failed', until: now + 600 }], tokens: [] })
    expect(await codeOf(await issuer.sign())).toBe('SANDBOX_LOST')
  })

  test('one token by its jti, others stay good; the entry goes when its time is over', async () => {
    const [revoked, good] = [await issuer.sign({ jti: 'revoked' }), await issuer.sign({ jti: 'good' })]
    expect(await codeOf(revoked)).toBe('accepted')
    revocations.apply({ sessions: [], tokens: [{ jti: 'revoked', until: now + 60 }] })
    expect(await codeOf(revoked)).toBe('UNAUTHENTICATED')
    expect(await codeOf(good)).toBe('accepted')
    now += 61
    expect(await codeOf(revoked)).toBe('accepted')
  })

  test('tokens issued before the minimum of their sandbox', async () => {
    const token = await issuer.sign({ iat: now - 10 })
    revocations.apply({ sessions: [], tokens: [], sandboxes: [{ sandbox_id: sandboxId, min_iat: now, until: now + 600 }] })
    expect(await codeOf(token)).toBe('UNAUTHENTICATED')
    expect(await codeOf(await issuer.sign({ iat: now }))).toBe('accepted')
  })
})

describe('keys', { tags: ['C-49'] }, () => {
  test('are read once, again for an unknown kid, and then at most every 30 s', async () => {
    let loads = 0
    let clock = 0
    const keys = createKeySource({
      load: () => {
        loads++
        return Promise.resolve(issuer.jwks)
      },
      now: () => clock,
    })
    auth = authenticator(keys)
    expect(await codeOf(await issuer.sign())).toBe('accepted')
    expect(loads).toBe(1)
    clock = 1000
    for (let i = 0; i < 5; i++) expect(await codeOf(await issuer.sign({}, { kid: 'rotated' }))).toBe('UNAUTHENTICATED')
    expect(loads).toBe(1)
    clock = 31_000
    issuer.jwks.keys.push({ ...(issuer.jwks.keys[0] as (typeof issuer.jwks.keys)[0]), kid: 'rotated' })
    expect(await codeOf(await issuer.sign({}, { kid: 'rotated' }))).toBe('accepted')
    expect(loads).toBe(2)
  })

  test('stay good while the broker cannot be reached', async () => {
    let clock = 0
    let up = true
    auth = authenticator(
      createKeySource({ load: () => (up ? Promise.resolve(issuer.jwks) : Promise.reject(new Error('down'))), now: () => clock }),
    )
    expect(await codeOf(await issuer.sign())).toBe('accepted')
    up = false
    clock = 400_000
    expect(await codeOf(await issuer.sign())).toBe('accepted')
  })
})
