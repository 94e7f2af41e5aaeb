import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type ListSecretsResponse, newSandboxId, type SecretInfo, type SessionSecretsResponse } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { makeSecretKey } from '../../src/host/make-secret-key.ts'
import { openDatabase } from '../../src/store/sqlite/engine/database.ts'
import { injecting } from '../support/injecting.ts'
import { type Caller, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

const profiles = injecting('one', 'two', 'three', 'four', 'lasting', 'early', 'late')

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker({ profiles })
})
afterEach(() => broker.stop())

const put = <T = SecretInfo>(by: Caller, name: string, body: unknown) => by.send<T>('PUT', `/v1/secrets/${name}`, body)
const list = async (by: Caller, query = '') => (await by.get<ListSecretsResponse>(`/v1/secrets${query}`)).body
const auditOf = async (event: string) =>
  (await broker.get<{ entries: { caller: string; data: unknown }[] }>(`/v1/audit?event=${event}`)).body.entries

describe('a secret', () => {
  test('is set, changed, listed and removed, and never shown', async () => {
    const made = await put(broker, 'gh_token', { value: 'first', description: 'of a robot' })
    expect(made).toMatchObject({ status: 201, body: { name: 'gh_token', version: 1, description: 'of a robot' } })
    const { status, body } = await put(broker, 'gh_token', { value: 'second' })
    expect([status, body]).toEqual([200, { ...made.body, version: 2, updated_at: expect.any(String) }])
    expect((await broker.get('/v1/secrets/gh_token')).body).toEqual(body)
    await put(broker, 'Other.one-2', { value: 'x' })
    expect((await list(broker)).secrets.map(({ name, version }) => [name, version])).toEqual([
      ['Other.one-2', 1],
      ['gh_token', 2],
    ])
    expect((await broker.delete('/v1/secrets/gh_token')).status).toBe(204)
    expect((await broker.delete<Refusal>('/v1/secrets/gh_token')).body.error.code).toBe('NOT_FOUND')
    expect((await broker.get<Refusal>('/v1/secrets/gh_token')).body.error.code).toBe('NOT_FOUND')
    const set = await auditOf('secret.set')
    expect(set.map(({ data }) => data)).toEqual([
      { name: 'Other.one-2', version: 1 },
      { name: 'gh_token', version: 2 },
      { name: 'gh_token', version: 1 },
    ])
    expect(set[0]?.caller).toBe('operator')
    expect((await auditOf('secret.remove')).map(({ data }) => data)).toEqual([{ name: 'gh_token' }])
  })

  test('lists page after page', async () => {
    for (const name of ['e', 'b', 'd', 'a', 'c']) await put(broker, name, { value: name })
    const first = await list(broker, '?limit=3')
    const second = await list(broker, `?limit=3&cursor=${first.next_cursor}`)
    expect([...first.secrets, ...second.secrets].map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(second.next_cursor).toBeNull()
    expect((await broker.get('/v1/secrets?cursor=mine')).status).toBe(400)
  })

  test('is its tenant’s alone, and for operators', async () => {
    const north = await broker.principal('ann', { role: 'operator', tenant: 'north' })
    const user = await broker.principal('bob', { rights: ['act_as', 'release', 'box'] })
    expect((await put(north, 'shared', { value: 'of the north' })).status).toBe(201)
    expect((await put(broker, 'shared', { value: 'of the root' })).status).toBe(201)
    expect((await broker.delete('/v1/secrets/shared')).status).toBe(204)
    expect((await list(north)).secrets).toMatchObject([{ name: 'shared', version: 1, created_by: 'ann' }])
    expect((await list(broker)).secrets).toEqual([])
    const refused = [await put(user, 'shared', { value: 'x' }), await user.get('/v1/secrets'), await user.get('/v1/secrets/shared')]
    expect([...refused, await user.delete('/v1/secrets/shared')].map(({ status }) => status)).toEqual([403, 403, 403, 403])
  })

  test('takes 64 KiB of any text but NUL, whatever that is as JSON, and says what is wrong without the value', async () => {
    const largest = ['x'.repeat(65_536), '\u0001'.repeat(65_536), `${'票'.repeat(21_845)}x`, 'two\nlines\t"quoted" \\ ✓']
    for (const value of largest) expect((await put(broker, 'large', { value })).status).toBeLessThan(300)
    const wrong: [string, unknown][] = [
      ['large', { value: 'CANARY'.padEnd(65_537, 'x') }],
      ['large', { value: `CANARY${'票'.repeat(21_845)}` }],
      ['large', { value: 'CANARY\0' }],
      ['large', { value: 'CANARY\ud800' }],
      ['large', { value: '' }],
      ['large', { value: ['CANARY'] }],
      ['large', { value: 'ok', CANARY: 1 }],
      ['large', {}],
      ['.hidden', { value: 'CANARY' }],
      ['a%2Fb', { value: 'CANARY' }],
      ['n'.repeat(129), { value: 'CANARY' }],
    ]
    for (const [name, body] of wrong) {
      const answer = await put<Refusal>(broker, name, body)
      expect([name.slice(0, 20), answer.status, answer.body.error.code]).toEqual([name.slice(0, 20), 400, 'INVALID_REQUEST'])
      if (!('CANARY' in (body as object))) expect(JSON.stringify(answer.body)).not.toContain('CANARY')
    }
    expect((await put<Refusal>(broker, 'large', { value: 'x'.repeat(500_000) })).body.error.code).toBe('PAYLOAD_TOO_LARGE')
    expect((await list(broker)).secrets).toMatchObject([{ name: 'large', version: largest.length }])
  })

  test('is one of at most 1,000 of its tenant', async () => {
    await Promise.all(Array.from({ length: 1000 }, (_, n) => put(broker, `secret-${n}`, { value: 'x' })))
    const { status, body } = await put<Refusal>(broker, 'more', { value: 'x' })
    expect([status, body.error.code, body.error.details]).toEqual([507, 'QUOTA_EXCEEDED', { max: 1000 }])
    expect((await put(broker, 'secret-7', { value: 'y' })).status).toBe(200)
  })

  test('survives a restart under the key of the data directory, which nobody else may read', async () => {
    await put(broker, 'lasting', { value: 'still there' })
    const file = join(broker.dataDir, 'secret-keys')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const { dataDir } = broker
    await broker.stop(true)
    broker = await startTestBroker({ dataDir, profiles })
    const { ask } = await sessionWith('t')
    expect((await ask(['lasting'])).body).toEqual({ secrets: { lasting: { value: 'still there', version: 1 } } })
  })
})

/** A live session on an agent, and what that agent gets. */
async function sessionWith(threadId: string) {
  const agent = await broker.startAgent()
  const { session_id: sessionId } = await broker.ensure(threadId)
  const ask = (names: unknown, session = sessionId) => askAs(agent, names, session)
  return { agent, sessionId, ask }
}

type Agent = Awaited<ReturnType<TestBroker['startAgent']>>
const askAs = ({ id: own, registration }: Agent, names: unknown, session_id: string, id = own) =>
  broker.as(registration?.agent_token ?? '').post<SessionSecretsResponse & Refusal>(`/v1/agents/${id}/secrets`, { session_id, names })

describe('an agent', () => {
  test('gets the values that it asks for, of the newest version, for its session and not to be stored', async () => {
    const { ask } = await sessionWith('t')
    await put(broker, 'one', { value: 'a' })
    await put(broker, 'two', { value: 'b' })
    await put(broker, 'two', { value: 'c' })
    const north = await broker.principal('ann', { role: 'operator', tenant: 'north' })
    await put(north, 'three', { value: 'not yours' })
    const { status, headers, body } = await ask(['one', 'two', 'three', 'four', 'one'])
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(body).toEqual({ secrets: { one: { value: 'a', version: 1 }, two: { value: 'c', version: 2 } } })
    await put(broker, 'of-no-rule', { value: 'd' })
    expect((await ask(['of-no-rule'])).body).toEqual({ secrets: {} })
    await broker.delete('/v1/secrets/one')
    expect((await ask(['one'])).body).toEqual({ secrets: {} })
    expect((await ask([])).body).toEqual({ secrets: {} })
    expect((await ask(['../x'])).status).toBe(400)
    expect((await ask(Array.from({ length: 129 }, (_, n) => `n${n}`))).status).toBe(400)
  })

  test('gets nothing for a session of another agent, one that has ended, or none', async () => {
    await put(broker, 'one', { value: 'a' })
    const { agent, ask, sessionId } = await sessionWith('t')
    const other = await broker.startAgent()
    const refused = async (answer: ReturnType<typeof ask>) => (await answer).body.error.code
    expect(await refused(askAs(other, ['one'], sessionId))).toBe('BINDING_NOT_FOUND')
    expect(await refused(ask(['one'], `ses_${newSandboxId()}`))).toBe('BINDING_NOT_FOUND')
    // With the token of another agent, or the key of an operator.
    expect(await refused(askAs(other, ['one'], sessionId, agent.id))).toBe('UNAUTHENTICATED')
    const body = { session_id: sessionId, names: ['one'] }
    expect((await broker.post(`/v1/agents/${agent.id}/secrets`, body)).status).toBe(401)
    expect((await ask(['one'])).status).toBe(200)
    await broker.release(sessionId)
    expect(await refused(ask(['one']))).toBe('BINDING_NOT_FOUND')
  })

  test('gets nothing after the hard end of the session, though nobody has ended it yet', async () => {
    await put(broker, 'one', { value: 'a' })
    const { ask } = await sessionWith('t')
    broker.pass(366 * 86_400_000)
    expect((await ask(['one'])).status).toBe(404)
  })
})

describe('in the database', () => {
  const change = async (sql: string) => {
    const db = await openDatabase(join(broker.dataDir, 'broker.db'))
    try {
      db.exec(sql)
    } finally {
      db.close()
    }
  }

  test('a value opens for its own tenant, name and version alone', async () => {
    const { ask } = await sessionWith('t')
    for (const name of ['one', 'two']) await put(broker, name, { value: `of ${name}` })
    const north = await broker.principal('ann', { role: 'operator', tenant: 'north' })
    await put(north, 'one', { value: 'of the north' })
    const both = { one: { value: 'of one', version: 1 }, two: { value: 'of two', version: 1 } }
    expect((await ask(['one', 'two'])).body.secrets).toEqual(both)
    const sealedOf = (tenant: string, name: string) => `(SELECT sealed FROM secrets WHERE tenant = '${tenant}' AND name = '${name}')`
    for (const set of [`sealed = ${sealedOf('default', 'two')}`, `sealed = ${sealedOf('north', 'one')}`, 'version = 7', "sealed = ''"]) {
      await put(broker, 'one', { value: 'of one' })
      await change(`UPDATE secrets SET ${set} WHERE tenant = 'default' AND name = 'one'`)
      expect([set, (await ask(['one', 'two'])).body.secrets]).toEqual([set, { two: both.two }])
    }
  })

  test('values of an earlier key still open, and new ones are sealed under the first', async () => {
    const { ask } = await sessionWith('t')
    await put(broker, 'early', { value: 'a' })
    const file = join(broker.dataDir, 'secret-keys')
    const first = makeSecretKey(file, { add: true })
    await put(broker, 'late', { value: 'b' })
    expect((await ask(['early', 'late'])).body.secrets).toMatchObject({ early: { value: 'a' }, late: { value: 'b' } })
    const db = await openDatabase(join(broker.dataDir, 'broker.db'))
    const under = db.prepare<[], { name: string; kek_id: string }>('SELECT name, kek_id FROM secrets').all()
    db.close()
    expect(under.find(({ name }) => name === 'late')?.kek_id).toBe(first)
    expect(under.find(({ name }) => name === 'early')?.kek_id).not.toBe(first)
    expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(2)
  })
})
