import assert from 'node:assert/strict'
import { createSign, generateKeyPairSync, sign } from 'node:crypto'
import { type Case, check } from '../case.ts'
import { claimsOf, forged, refused } from '../expect.ts'

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Contract 2.9: session tokens at the door of the dataplane. */
export const tokenCases: readonly Case[] = [
  check('4-50, 4-52, C-52', 'claims: one session, one sandbox, short-lived', async (t) => {
    const { token, session_id, thread_id, sandbox, credentials } = await t.shared()
    const { iat, exp, jti, iss, sub, tid, gen, ...claims } = claimsOf(token)
    assert.deepEqual(claims, {
      aud: sandbox.id,
      sid: session_id,
      thread_id,
      sandbox_id: sandbox.id,
      caps: credentials.granted_capabilities,
      ver: 1,
    })
    assert.ok(exp - iat <= 900 && exp > iat)
    for (const value of [jti, iss, sub, tid]) assert.equal(typeof value, 'string')
    assert.equal(typeof gen, 'number')
  }),
  check('4-51, C-47', 'the token of another session is 403', async (t) => {
    const [mine, other] = [await t.shared(), await t.ensure()]
    refused(await t.dp(mine, 'POST', '/exec', { token: other.token, body: { command: 'true' } }), 403, 'FORBIDDEN')
  }),
  check('4-53', 'forged tokens are 401, whatever their header says', async (t) => {
    const grant = await t.shared()
    const [header, payload, signature] = grant.token.split('.') as [string, string, string]
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const input = (head: object) => `${encode(head)}.${payload}`
    const own = (head: object) => `${input(head)}.${sign(null, Buffer.from(input(head)), privateKey).toString('base64url')}`
    const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const rs256 = createSign('RSA-SHA256')
      .update(input({ alg: 'RS256', kid }))
      .sign(rsa.privateKey)
      .toString('base64url')
    const tokens = [
      'nonsense',
      `${encode({ alg: 'none' })}.${payload}.`,
      own({ alg: 'EdDSA', kid }),
      own({ alg: 'EdDSA', kid: 'foreign' }),
      own({ alg: 'EdDSA', jwk: publicKey.export({ format: 'jwk' }) }),
      own({ alg: 'EdDSA', kid, jku: 'http://127.0.0.1:1/jwks' }),
      `${input({ alg: 'RS256', kid })}.${rs256}`,
      forged(grant.token, 'payload', { sub: 'somebody' }),
      forged(grant.token, 'header', { alg: 'HS256' }),
      `${header}.${payload}.${signature.slice(0, -4)}AAAA`,
    ]
    for (const token of tokens) refused(await t.dp(grant, 'POST', '/exec', { token, body: { command: 'true' } }), 401, 'UNAUTHENTICATED')
  }),
  check('4-55', 'the token in either header', async (t) => {
    const grant = await t.shared()
    refused(await t.dp(grant, 'POST', '/exec', { token: null, body: { command: 'true' } }), 401, 'UNAUTHENTICATED')
    const byKey = await t.dp(grant, 'POST', '/exec', { token: null, headers: { 'x-api-key': grant.token }, body: { command: 'true' } })
    assert.equal(byKey.status, 200)
  }),
  check('4-57', 'a token in the query is none', async (t) => {
    const grant = await t.shared()
    refused(await t.dp(grant, 'POST', `/exec?token=${grant.token}`, { token: null, body: { command: 'true' } }), 401, 'UNAUTHENTICATED')
  }),
  check('4-33, 4-16', "the operator's key opens no dataplane", async (t) => {
    refused(await t.dp(await t.shared(), 'POST', '/exec', { token: t.key, body: { command: 'true' } }), 401, 'UNAUTHENTICATED')
  }),
  check('C-49', 'the public keys are published; each token names one', async (t) => {
    const { keys } = (
      await t.call<{ keys: { kid: string; kty: string; crv: string; d?: string }[] }>('GET', '/.well-known/jwks.json', { key: null })
    ).body
    const { kid } = JSON.parse(Buffer.from((await t.shared()).token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }
    assert.ok(keys.some((key) => key.kid === kid && key.kty === 'OKP' && key.crv === 'Ed25519'))
    assert.ok(keys.every(({ d }) => d === undefined))
  }),
  check('4-105, C-39, C-56', 'each capability opens its own routes and no others', async (t) => {
    const routes: [string, string, string, unknown?][] = [
      ['exec', 'POST', '/exec', { command: 'true' }],
      ['exec', 'GET', '/execs'],
      ['fs_read', 'GET', '/files'],
      ['fs_read', 'GET', '/files/stat?path=.'],
      ['fs_write', 'POST', '/files/mkdir', { path: 'capability' }],
      ['fs_write', 'POST', '/files/upload?path=capability/x', 'x'],
    ]
    for (const capability of ['fs_read', 'fs_write', 'shell', 'exec']) {
      const grant = await t.ensure({ requested_capabilities: [capability] })
      for (const [needs, method, path, body] of routes) {
        const reply = await t.dp(grant, method, path, { body })
        if (needs === capability) assert.equal(reply.status, 200, `${capability} ${method} ${path}: ${reply.text}`)
        else assert.match(refused(reply, 403, 'CAPABILITY_DENIED').message, new RegExp(`${needs} not granted`))
      }
      for (const [needs, path] of [
        ['exec', '/exec/ws'],
        ['shell', '/shell/ws'],
      ] as const) {
        const socket = t.socket(grant, path)
        await socket.start(needs === 'exec' ? { command: 'true' } : {})
        if (needs === capability) await socket.frame('ready')
        else assert.deepEqual(await socket.failure(), ['CAPABILITY_DENIED', 4403])
        socket.terminate()
      }
    }
  }),
]
