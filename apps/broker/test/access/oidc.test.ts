import { generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AUDIENCE, startIdentityProvider } from '../support/identity-provider.ts'
import { type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

type Provider = Awaited<ReturnType<typeof startIdentityProvider>>
const RATES = { rateLimits: { authFailures: { perSecond: 1000, burst: 1000 } } }
const oidc = (provider: Provider) => ({ oidcIssuer: provider.issuer, oidcJwksUrl: provider.jwksUrl, oidcAudience: [AUDIENCE, 'other'] })
const CLAIMS = { tenant: 'org', role: 'realm_access.roles', rights: 'https://boxoffice.example/rights', actorType: 'kind' }

let provider: Provider
let broker: TestBroker
beforeAll(async () => {
  provider = await startIdentityProvider()
  broker = await startTestBroker({ ...RATES, ...oidc(provider), oidcAlgorithms: ['RS256', 'ES256'] })
  await broker.startAgent()
})
afterAll(async () => {
  await broker.stop()
  await provider.close()
})

const with_ = async (claims: Record<string, unknown>, header = {}) => broker.as(await provider.token({ sub: 'alice', ...claims }, header))
const seconds = () => Math.floor(Date.now() / 1000)
const fresh = () => `t-${crypto.randomUUID()}`

describe('[2.1] a token of the identity provider is a server credential', () => {
  test('beside API keys, by either header; its subject is the principal', async () => {
    const thread = fresh()
    const alice = await with_({})
    const made = await alice.ensure(thread)
    expect((await (await with_({ sub: 'bob' })).refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
    const token = await provider.token({ sub: 'alice' })
    const byKey = await fetch(`${broker.url}/v1/sandbox/sessions/${made.session_id}`, { headers: { 'x-api-key': token } })
    expect(byKey.status).toBe(200)
    expect((await broker.ensure(fresh())).session_id).toMatch(/^ssn_/)
    const { entries } = (
      await broker.get<{ entries: { caller: string; actor: string }[] }>(`/v1/audit?event=sandbox.session.acquire&thread_id=${thread}`)
    ).body
    expect(entries[0]).toMatchObject({ caller: 'alice', actor: 'alice', tenant: 'default' })
  })

  test('by another algorithm of the list, and for one audience of several', async () => {
    await provider.addKey('ec', 'ES256')
    await broker.advance(31_000)
    const made = await provider.token({ sub: 'alice', aud: ['x', 'other'], iat: seconds() + 31, exp: seconds() + 300 }, { kid: 'ec' })
    expect((await broker.as(made).get('/v1/profiles')).status).toBe(200)
  })

  test('without configured claims it is a user without rights, whatever the token says of itself', async () => {
    const mallory = await with_({ sub: 'mallory', role: 'operator', roles: ['operator'], rights: ['release', 'act_as'], tenant: 'island' })
    expect((await mallory.get('/v1/audit')).status).toBe(403)
    const thread = fresh()
    await broker.ensure(thread)
    expect((await mallory.refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
  })
})

describe('[2.1, 4-02] what does not hold is 401, with WWW-Authenticate', () => {
  const wrong: [name: string, token: () => Promise<string>, message: RegExp][] = [
    ['another issuer', () => provider.token({ sub: 'a', iss: 'https://evil.example' }), /"iss"/],
    ['another audience', () => provider.token({ sub: 'a', aud: 'mail' }), /"aud"/],
    ['no audience', () => provider.token({ sub: 'a', aud: undefined }), /"aud"/],
    ['no exp', () => provider.token({ sub: 'a', exp: undefined }), /"exp"/],
    ['no subject', () => provider.token({}), /"sub"/],
    ['an empty subject', () => provider.token({ sub: '' }), /"sub"/],
    ['a subject with control characters', () => provider.token({ sub: 'a\nb' }), /"sub"/],
    ['a kid that is not there', () => provider.token({ sub: 'a' }, { kid: 'k-none' }), /signature/],
    ['no kid', () => provider.token({ sub: 'a' }, { kid: undefined }), /no kid/],
    ['a key that is not the kid’s', () => foreign('RS256', { kid: 'k1' }), /signature/],
    ['its key in the header', () => foreign('RS256', { kid: 'k1', jwk: provider.jwk('k1') }), /signature/],
    ['an algorithm outside the list', () => foreign('PS256', { kid: 'k1' }), /algorithm/],
    ['HS256 with the public key as the secret', () => symmetric(), /algorithm/],
    ['none', () => Promise.resolve(unsigned()), /refused|session token/],
    ['a critical header that nobody knows', () => foreign('RS256', { kid: 'k1', crit: ['x'], x: 1 }), /signature/],
    ['more than 8192 characters', () => provider.token({ sub: 'a', pad: 'x'.repeat(9000) }), /8192/],
  ]
  test.each(wrong)('%s', async (_, make, message) => {
    const { status, body, headers } = await broker.as(await make()).get<Refusal>('/v1/profiles')
    expect([status, body.error.code, headers.get('www-authenticate')]).toEqual([401, 'UNAUTHENTICATED', 'Bearer'])
    expect(body.error.message).toMatch(message)
  })

  const foreign = async (alg: string, header: Record<string, unknown>) => {
    const { privateKey } = await generateKeyPair(alg)
    const claims = { iss: provider.issuer, aud: AUDIENCE, sub: 'alice', exp: seconds() + 300 }
    const { crit, ...rest } = header as { crit?: string[] }
    return new SignJWT(claims)
      .setProtectedHeader({ alg, ...rest, ...(crit ? { crit } : {}) })
      .sign(privateKey, crit ? { crit: { x: true } } : {})
  }
  const symmetric = () =>
    new SignJWT({ iss: provider.issuer, aud: AUDIENCE, sub: 'alice', exp: seconds() + 300 })
      .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
      .sign(new TextEncoder().encode(JSON.stringify(provider.jwk('k1'))))
  const unsigned = () => {
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    return `${part({ alg: 'none', kid: 'k1' })}.${part({ iss: provider.issuer, aud: AUDIENCE, sub: 'alice', exp: seconds() + 300 })}.AAAA`
  }

  test('[4-33] a session token of the broker is never one, also with an identity provider', async () => {
    const { token } = await broker.ensure(fresh())
    const { status, body } = await broker.as(token).get<Refusal>('/v1/profiles')
    expect([status, body.error.message]).toEqual([401, 'a session token is no server credential; send an API key'])
  })

  test('[4-33] not even when the broker itself is configured as the provider', async () => {
    const first = await startTestBroker()
    await first.startAgent()
    const { token, sandbox } = await first.ensure('t')
    const { port } = new URL(first.url)
    await first.stop(true)
    const self = { oidcIssuer: first.url, oidcJwksUrl: `${first.url}/.well-known/jwks.json`, oidcAudience: [sandbox.id] }
    const second = await startTestBroker({ ...self, oidcAlgorithms: ['EdDSA'], dataDir: first.dataDir, port: Number(port) })
    expect((await second.as(token).get('/v1/profiles')).status).toBe(401)
    await second.stop()
  })

  test('[C-19] 401 comes before the body is looked at', async () => {
    const token = await provider.token({ sub: 'a', aud: 'mail' })
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    expect((await fetch(`${broker.url}/v1/sandbox/sessions`, { method: 'POST', headers, body: '{broken' })).status).toBe(401)
  })
})

describe('[C-48] time: 30 s leeway on nbf and iat, none on exp', () => {
  test.each([
    ['exp a second ago', { exp: -1 }, 401],
    ['exp now', { exp: 0 }, 401],
    ['exp soon', { exp: 20 }, 200],
    ['nbf in 20 s', { nbf: 20 }, 200],
    ['nbf in 60 s', { nbf: 60 }, 401],
    ['iat in 20 s', { iat: 20 }, 200],
    ['iat in 60 s', { iat: 60 }, 401],
    ['no iat', { iat: undefined }, 200],
  ])('%s', async (_, offsets, expected) => {
    const still = await startTestBroker({ ...RATES, ...oidc(provider) })
    const now = seconds()
    const claims = Object.fromEntries(
      Object.entries(offsets as Record<string, number | undefined>).map(([name, offset]) => [
        name,
        offset === undefined ? undefined : now + offset,
      ]),
    )
    const { status } = await still.as(await provider.token({ sub: 'a', ...claims })).get('/v1/profiles')
    expect(status).toBe(expected)
    await still.stop()
  })
})

describe('claims become tenant, role, rights and actor type, by the names that are configured', () => {
  let mapped: TestBroker
  beforeAll(async () => {
    mapped = await startTestBroker({ ...RATES, ...oidc(provider), oidcClaims: CLAIMS })
    await mapped.startAgent()
  })
  afterAll(() => mapped.stop())
  const who = async (claims: Record<string, unknown>) => mapped.as(await provider.token({ sub: 'alice', org: 'acme', ...claims }))

  test('the tenant: [C-04] threads of another one are other threads', async () => {
    const thread = fresh()
    const made = await (await who({})).ensure(thread)
    const far = await who({ org: 'other' })
    expect((await far.read(made.session_id)).status).toBe(404)
    expect((await far.ensure(thread)).session_id).not.toBe(made.session_id)
  })

  test('a token without its tenant is 401, not of the default tenant', async () => {
    for (const org of [undefined, '', 7, ['acme']]) expect((await (await who({ org })).get('/v1/profiles')).status).toBe(401)
  })

  test('the role, from a list at the end of a path', async () => {
    expect((await (await who({ realm_access: { roles: ['x', 'operator'] } })).get('/v1/audit')).status).toBe(200)
    for (const realm_access of [undefined, { roles: ['operators'] }, { roles: { operator: true } }, 'operator'])
      expect((await (await who({ realm_access })).get('/v1/audit')).status).toBe(403)
  })

  test('the rights, from a claim with dots in its name, as a list or with spaces between', async () => {
    const owner = await who({ sub: 'owner' })
    for (const rights of [['release'], 'act_as release', ['fly'], undefined]) {
      const thread = fresh()
      const made = await owner.ensure(thread)
      await owner.send('PUT', `/v1/sandbox/sessions/${made.session_id}/members`, { principals: ['alice'] })
      const { status } = await (await who({ 'https://boxoffice.example/rights': rights })).release(made.session_id)
      expect(status).toBe(rights?.includes('release') ? 204 : 403)
    }
  })

  test('a claim that only looks like it, in a prototype, counts for nothing', async () => {
    const strange = await startTestBroker({ ...RATES, ...oidc(provider), oidcClaims: { role: 'constructor.name', rights: '__proto__' } })
    expect((await strange.as(await provider.token({ sub: 'a' })).get('/v1/audit')).status).toBe(403)
    await strange.stop()
  })
})

describe('[C-49] keys of the provider', () => {
  const start = async () => {
    const own = await startIdentityProvider()
    const users = await startTestBroker({ ...RATES, ...oidc(own), authorizerTimeoutMs: 150 })
    const status = async (header = {}) => {
      const now = users.now()
      const token = await own.token({ sub: 'a', iat: now, exp: now + 60 }, header)
      return (await users.as(token).get('/v1/profiles')).status
    }
    const end = () => Promise.all([users.stop(), own.close()])
    return { own, users, status, end }
  }

  test('are read once and kept for 300 s; at once they are read once', async () => {
    const { own, users, status, end } = await start()
    expect(await Promise.all(Array.from({ length: 10 }, () => status()))).toEqual(Array(10).fill(200))
    expect(own.received).toHaveLength(1)
    await users.advance(299_000)
    expect(await status()).toBe(200)
    expect(own.received).toHaveLength(1)
    await users.advance(2_000)
    expect(await status()).toBe(200)
    expect(own.received).toHaveLength(2)
    await end()
  })

  test('a new kid is found by reading again, at most every 30 s: inventing kids asks for nothing more', async () => {
    const { own, users, status, end } = await start()
    expect(await status()).toBe(200)
    await own.addKey('k2')
    expect(await status({ kid: 'k2' })).toBe(401)
    expect(own.received).toHaveLength(1)
    await users.advance(30_001)
    expect(await status({ kid: 'k2' })).toBe(200)
    expect(own.received).toHaveLength(2)
    for (let i = 0; i < 20; i++) expect(await status({ kid: `made-up-${i}` })).toBe(401)
    expect(own.received).toHaveLength(2)
    await end()
  })

  test('a key that is withdrawn counts no more when the kept ones are 300 s old', async () => {
    const { own, users, status, end } = await start()
    await own.addKey('k2')
    expect(await status({ kid: 'k2' })).toBe(200)
    const old = await own.token({ sub: 'a', exp: users.now() + 900 }, { kid: 'k2' })
    own.removeKey('k2')
    await users.advance(301_000)
    expect((await users.as(old).get('/v1/profiles')).status).toBe(401)
    await end()
  })

  test('that cannot be had are 503, retryable, not 401; API keys go on working; the next try is not before 2 s', async () => {
    const { own, users, status, end } = await start()
    own.state.status = 500
    const { status: refused, body, headers } = await users.as(await own.token({ sub: 'a' })).get<Refusal>('/v1/profiles')
    expect([refused, body.error.code, body.error.retryable, headers.get('retry-after')]).toEqual([503, 'BACKEND_UNAVAILABLE', true, '2'])
    expect(await Promise.all([status(), status(), status()])).toEqual([503, 503, 503])
    expect(own.received).toHaveLength(1)
    expect((await users.get('/v1/profiles')).status).toBe(200)
    own.state.status = 200
    await users.advance(2_001)
    expect(await status()).toBe(200)
    await end()
  })

  test('from a provider that hangs are given up in time', async () => {
    const { own, status, end } = await start()
    own.state.hang = true
    expect(await status()).toBe(503)
    await end()
  })
})

test('[9] no token of a provider is in the audit log or the database', async () => {
  const token = await provider.token({ sub: 'alice' })
  await broker.as(token).ensure(fresh())
  const { body } = await broker.get('/v1/audit?limit=200')
  expect(JSON.stringify(body)).not.toContain(token.split('.')[2])
})
