import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SecretKeys } from '../../src/host/secret-keys.ts'
import { BrokerTokens } from '../../src/tokens/broker-tokens.ts'

const CALL = { method: 'POST', path: '/files/mcp' }
const NOW = 1_790_000_000_000

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'bxo-keys-'))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const keyFile = (name: string, ...lines: string[]): SecretKeys => {
  const path = join(directory, name)
  writeFileSync(path, lines.join('\n'), { mode: 0o600 })
  return new SecretKeys(path)
}
const line = () => randomBytes(32).toString('base64url')

test('a broker knows another one of its database by one token for one request, and whose session it is for', async () => {
  const shared = line()
  const [a, b] = ['a', 'b'].map((brokerId) => new BrokerTokens({ secrets: keyFile(brokerId, shared), brokerId, now: () => NOW }))
  if (a === undefined || b === undefined) return expect.fail()
  const token = await a.sign('b', { ...CALL, sid: 'ssn_1' })
  expect(await b.verify(token, CALL)).toBe('ssn_1')
  expect(await b.verify(await a.sign('b', { ...CALL, sid: null }), CALL)).toBeNull()
  await expect(b.verify(token, CALL)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
  // The key is derived: what opens secrets signs nothing.
  expect(token).not.toContain(shared)
})

test('one for another broker, request or time, under another key or by the key itself is refused', async () => {
  const [shared, other] = [line(), line()]
  let now = NOW
  const of = (brokerId: string, ...lines: string[]) =>
    new BrokerTokens({ secrets: keyFile(`${brokerId}-${lines.length}-${lines[0]?.slice(0, 4)}`, ...lines), brokerId, now: () => now })
  const [a, b] = [of('a', shared), of('b', shared)]
  const refused = (token: string, call = CALL) => expect(b.verify(token, call)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
  await refused(await a.sign('c', { ...CALL, sid: null }))
  await refused(await a.sign('b', { ...CALL, sid: null }), { ...CALL, method: 'DELETE' })
  await refused(await a.sign('b', { ...CALL, sid: null }), { ...CALL, path: '/others/mcp' })
  await refused(await of('a', other).sign('b', { ...CALL, sid: null }))
  await refused('no.token.atall')
  const good = await a.sign('b', { ...CALL, sid: null })
  const byKey = await new SignJWT(decodeJwt(good))
    .setProtectedHeader({ alg: 'HS256', typ: 'boxoffice-broker+jwt', kid: decodeProtectedHeader(good).kid ?? '' })
    .sign(Buffer.from(shared, 'base64url'))
  await refused(byKey)
  now += 60_000
  await refused(good)
  // A key that was added on one of them already, in front of the one that both have.
  const ahead = of('a', other, shared)
  await refused(await ahead.sign('b', { ...CALL, sid: null }))
  expect(await of('c', shared, other).verify(await ahead.sign('c', { ...CALL, sid: 's' }), CALL)).toBe('s')
})
