import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SecretKeys } from '../../../src/host/secret-keys.ts'
import { StartError } from '../../../src/host/start-error.ts'
import { COPIED, NOT_COPIED, SEALED_ANEW } from '../../../src/store/copy/copied-tables.ts'
import { copyBroker } from '../../../src/store/copy/copy-broker.ts'
import { openDatabase } from '../../../src/store/sqlite/engine/database.ts'
import { HeldLog } from '../../../src/store/sqlite/engine/held-log.ts'
import { openSqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { newSession } from '../../support/crowd.ts'
import { injecting } from '../../support/injecting.ts'
import { PASSWORD, type Postgres, startPostgres } from '../../support/postgres.ts'
import { removeDir, startTestBroker, type TestBroker, tempDir } from '../../support/test-broker.ts'
import { audited, create } from '../exam/parts.ts'

let postgres: Postgres
let secretKeyFile: string
beforeAll(async () => {
  postgres = await startPostgres()
  secretKeyFile = join(tempDir(), 'secret-key')
  writeFileSync(secretKeyFile, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
})
afterAll(() => postgres[Symbol.asyncDispose]())

type Row = Record<string, unknown>
const byText = (rows: Row[]): Row[] => rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
/** `bigint` arrives as text. */
const plain = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === null ? null : String(value)]))

const inFile = async (dataDir: string, query: string): Promise<Row[]> => {
  const db = await openDatabase(join(dataDir, 'broker.db'))
  try {
    return db.prepare<[], Row>(query).all()
  } finally {
    db.close()
  }
}
const refusal = (options: { from: string; to: string }): Promise<Error> =>
  copyBroker({ ...options, secretKeyFile }).then(
    () => Promise.reject(new Error('it was copied')),
    (thrown: Error) => thrown,
  )

/** What a broker leaves after some use: a session that lives and one that ended, grants, members, keys, tokens, events. */
async function use(broker: TestBroker) {
  const ann = await broker.principal('ann', { rights: ['act_as'] })
  const bob = await broker.principal('bob')
  const lasting = await ann.ensure('lasting', { labels: { team: 'red' } })
  await ann.send('PUT', `/v1/sandbox/sessions/${lasting.session_id}/members`, { principals: ['bob'] })
  await bob.ensure('lasting', { capabilities: ['exec'] })
  await ann.release((await ann.ensure('released')).session_id)
  await broker.post('/v1/enroll-tokens', { name: 'spare' })
  await broker.send('DELETE', `/v1/keys/${bob.keyId}`)
  return { key: ann.key, lasting }
}

const jwksOf = async (url: string): Promise<unknown> => (await fetch(`${url}/.well-known/jwks.json`)).json()

test('a broker is moved from its directory into PostgreSQL: every row, and the same session for the same key', async () => {
  const install = { installId: randomUUID(), sandboxes: new Map() }
  const old = await startTestBroker()
  await old.startAgent(install)
  const { key, lasting } = await use(old)
  const jwks = await jwksOf(old.url)
  const running = await refusal({ from: old.dataDir, to: postgres.url })
  expect(running).toBeInstanceOf(StartError)
  expect(running.message).toContain('in use by another broker')
  await old.stop(true)

  const to = await postgres.emptyDatabase()
  const copied = await copyBroker({ from: old.dataDir, to, secretKeyFile })
  for (const table of COPIED) {
    const rows = await inFile(old.dataDir, `SELECT * FROM ${table}`)
    const columns = Object.keys(rows[0] ?? {})
    const moved = await postgres.ask<Row>(`SELECT ${columns.join() || '*'} FROM ${table}`, [], to)
    expect([table, byText(moved.map(plain))]).toEqual([table, byText(rows.map(plain))])
    expect([table, copied[table]]).toEqual([table, rows.length])
  }
  for (const table of ['sessions', 'audit', 'session_events', 'grants', 'api_keys', 'enroll_tokens', 'scope_members', 'agents'])
    expect([table, copied[table]]).not.toEqual([table, 0])
  expect(copied.signing_keys).toBe(1)
  const wrong = 'SELECT id FROM sessions s WHERE event_seq <> (SELECT max(id) FROM session_events e WHERE e.session_id = s.id)'
  expect(await postgres.ask(wrong, [], to)).toEqual([])
  const counted = 'SELECT (SELECT sum(live)::int FROM live_by_tenant) AS tenant, (SELECT sum(live)::int FROM live_by_label) AS label'
  expect(await postgres.ask(counted, [], to)).toEqual([{ tenant: 1, label: 1 }])

  const again = await refusal({ from: old.dataDir, to })
  expect(again.message).toContain('is not empty')
  expect(again.message).not.toContain(PASSWORD)

  const broker = await startTestBroker({ databaseUrl: to, secretKeyFile, enrollToken: old.enrollToken, publicUrl: old.url })
  await broker.startAgent(install)
  const ann = broker.as(key)
  expect(await ann.ensure('lasting')).toMatchObject({ session_id: lasting.session_id, sandbox: { id: lasting.sandbox.id } })
  expect((await ann.ensure('released')).session_id).not.toBe(lasting.session_id)
  expect(await jwksOf(broker.url)).toEqual(jwks)
  const ids = (await postgres.ask<{ id: string }>('SELECT id FROM audit ORDER BY id', [], to)).map(({ id }) => Number(id))
  expect(ids).toEqual(ids.map((_, at) => at + 1))
  expect(ids.length).toBeGreaterThan(copied.audit ?? 0)
  await broker.stop()
  removeDir(old.dataDir)
})

test('what PostgreSQL cannot hold in a text is replaced; changes that no database has are told, not lost', async () => {
  const directory = tempDir()
  expect((await refusal({ from: directory, to: postgres.url })).message).toContain('has no broker')
  const path = join(directory, 'broker', 'broker.db')
  mkdirSync(dirname(path))
  await using store = await openSqliteStore(path)
  const session = newSession({ tenant: 'odd', labels: { 'half \ud800': 'nul \0' } })
  await create(store, session)
  await store.audit.append([audited('ssn_odd', { caller: 'nul \0' })])
  const to = await postgres.emptyDatabase()

  const held = new HeldLog(path)
  const change = { kind: 'key', id: 'key_1', at: 1 } as const
  held.put(change)
  expect((await refusal({ from: directory, to })).message).toContain('start and stop the broker once more')
  held.remove(change)
  await copyBroker({ from: directory, to, secretKeyFile })
  expect(await postgres.ask('SELECT labels FROM sessions', [], to)).toEqual([{ labels: '{"half \uFFFD":"nul \uFFFD"}' }])
  expect(await postgres.ask("SELECT caller FROM audit WHERE session_id = 'ssn_odd'", [], to)).toEqual([{ caller: 'nul \uFFFD' }])
})

test('every table of both databases is copied, or is left out knowingly', async () => {
  const directory = tempDir()
  await (await openSqliteStore(join(directory, 'broker.db')))[Symbol.asyncDispose]()
  const inSqlite = await inFile(directory, "SELECT name FROM sqlite_schema WHERE type = 'table'")
  expect(inSqlite.map(({ name }) => name).toSorted()).toEqual([...COPIED, ...NOT_COPIED, ...SEALED_ANEW].toSorted())
  const inPostgres = await postgres.ask<Row>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
    [],
    await postgres.database(),
  )
  const own = ['box_errors', 'brokers', 'live_by_label', 'live_by_tenant', 'mcp_servers', 'preview_codes', 'schema_version', 'signing_keys']
  expect(inPostgres.map(({ name }) => name).toSorted()).toEqual([...COPIED, ...SEALED_ANEW, ...own].toSorted())
})

test('secrets are sealed under the new key file; one that does not open is told by its name, and nothing is copied', async () => {
  const old = await startTestBroker({ profiles: injecting('gh_token') })
  for (const value of ['first', 'second']) await old.send('PUT', '/v1/secrets/gh_token', { value, description: 'of a robot' })
  await old.stop(true)
  const [before] = await inFile(old.dataDir, 'SELECT * FROM secrets')
  const to = await postgres.emptyDatabase()
  expect(await copyBroker({ from: old.dataDir, to, secretKeyFile })).toMatchObject({ secrets: 1 })
  const [after] = await postgres.ask<Row>('SELECT * FROM secrets', [], to)
  expect(plain({ ...after, sealed: '', kek_id: '' })).toEqual(plain({ ...before, sealed: '', kek_id: '' }))
  const keys = new SecretKeys(secretKeyFile)
  expect(after?.kek_id).toBe(keys.first.id)
  const broker = await startTestBroker({
    profiles: injecting('gh_token'),
    databaseUrl: to,
    secretKeyFile,
    enrollToken: old.enrollToken,
    publicUrl: old.url,
  })
  const agent = await broker.startAgent()
  const { session_id } = await broker.as(old.key).ensure('t')
  const ask = broker.as(agent.registration?.agent_token ?? '')
  const { body } = await ask.post(`/v1/agents/${agent.id}/secrets`, { session_id, names: ['gh_token'] })
  expect(body).toEqual({ secrets: { gh_token: { value: 'second', version: 2 } } })
  await broker.stop()

  rmSync(join(old.dataDir, 'secret-keys'))
  const again = await refusal({ from: old.dataDir, to: await postgres.emptyDatabase() })
  expect(again).toBeInstanceOf(StartError)
  expect(again.message).toContain('gh_token')
  removeDir(old.dataDir)
})
