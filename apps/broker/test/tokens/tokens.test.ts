import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { KeyFiles } from '../../src/tokens/key-files.ts'
import { SigningKeys } from '../../src/tokens/keys.ts'
import { removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker()
  await broker.startAgent()
})
afterEach(() => broker.stop())

const jwks = async () => (await broker.get<JSONWebKeySet>('/.well-known/jwks.json')).body
const verify = async (token: string, audience: string, keys?: JSONWebKeySet) =>
  (await jwtVerify(token, createLocalJWKSet(keys ?? (await jwks())), { algorithms: ['EdDSA'], issuer: broker.url, audience })).payload

test('[4-53] tokens are EdDSA with a kid of the JWKS and verify with it; the JWKS holds no private part and may be cached', async () => {
  const { token, sandbox, session_id } = await broker.ensure('t')
  expect(decodeProtectedHeader(token)).toEqual({ alg: 'EdDSA', kid: expect.any(String), typ: 'JWT' })
  expect(await verify(token, sandbox.id)).toMatchObject({ sid: session_id, ver: 1 })
  const { body, headers } = await broker.get<JSONWebKeySet>('/.well-known/jwks.json')
  expect(headers.get('cache-control')).toBe('public, max-age=300')
  expect(body.keys.map((key) => Object.keys(key).sort())).toEqual([['alg', 'crv', 'kid', 'kty', 'use', 'x']])
})

test('[C-49] rotation: published ahead, signs once caches have it, the old key stays for its tokens', async () => {
  const before = await broker.ensure('t')
  await broker.broker.rotateKeys()
  const both = await jwks()
  expect(both.keys).toHaveLength(2)
  const same = await broker.ensure('t')
  expect(decodeProtectedHeader(same.token).kid).toBe(decodeProtectedHeader(before.token).kid)
  await broker.advance(331_000)
  const after = await broker.ensure('t')
  expect(decodeProtectedHeader(after.token).kid).not.toBe(decodeProtectedHeader(before.token).kid)
  for (const { token, sandbox } of [before, after]) await verify(token, sandbox.id, both) // with the JWKS from before the change
  await broker.advance(2 * 3600_000)
  await broker.broker.reap()
  expect((await jwks()).keys).toHaveLength(1)
})

test('[C-49] a leaked key is replaced at once', async () => {
  const before = await broker.ensure('t')
  await broker.broker.rotateKeys(true)
  const after = await broker.ensure('t')
  expect(decodeProtectedHeader(after.token).kid).not.toBe(decodeProtectedHeader(before.token).kid)
  await verify(after.token, after.sandbox.id)
})

test('[C-49] keys rotate by age', async () => {
  const directory = tempDir()
  let now = Date.now()
  const keys = await SigningKeys.open(new KeyFiles(directory), () => now)
  await keys.maintain(24 * 3600_000)
  expect(keys.jwks.keys).toHaveLength(1)
  now += 25 * 3600_000
  await keys.maintain(24 * 3600_000)
  expect(keys.jwks.keys).toHaveLength(2)
  removeDir(directory)
})

test('[4-15, C-49] brokers on one data directory know each other’s keys', async () => {
  const directory = tempDir()
  const [a, b] = await Promise.all([
    SigningKeys.open(new KeyFiles(directory), Date.now),
    SigningKeys.open(new KeyFiles(directory), Date.now),
  ])
  await a.replace()
  await Promise.all([a.reload(), b.reload()])
  expect(b.jwks).toEqual(a.jwks)
  expect(b.current.kid).toBe(a.current.kid)
  removeDir(directory)
})

test('[C-49] keys persist with mode 0600; one that others can read or that is broken is refused by its path', async () => {
  const files = readdirSync(join(broker.dataDir, 'keys'))
  expect(files).toHaveLength(1)
  expect(statSync(join(broker.dataDir, 'keys', files[0] ?? '')).mode & 0o777).toBe(0o600)
  for (const mode of [0o644, 0o600]) {
    const directory = tempDir()
    mkdirSync(join(directory, 'keys'))
    writeFileSync(join(directory, 'keys', '1-x.json'), '{}', { mode })
    await expect(SigningKeys.open(new KeyFiles(directory), Date.now)).rejects.toThrow(/1-x\.json/)
    removeDir(directory)
  }
})
