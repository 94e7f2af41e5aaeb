import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSecretKey } from '../../../src/host/make-secret-key.ts'
import { type BrokerConfig, createBroker, migrateDatabase, rekeyDatabase, StartError } from '../../../src/index.ts'
import { MIGRATIONS } from '../../../src/store/postgres/engine/migrations.ts'
import { startFakeAgent } from '../../support/fake-agent.ts'
import { PASSWORD, type Postgres, startPostgres } from '../../support/postgres.ts'
import { caller, tempDir } from '../../support/test-broker.ts'

let postgres: Postgres
let keyFile: string
/** Of a database with the schema and without rows. */
let wholeUrl: string
beforeAll(async () => {
  postgres = await startPostgres()
  wholeUrl = await postgres.database()
  keyFile = join(tempDir(), 'secret-keys')
  makeSecretKey(keyFile)
}, 120_000)
afterAll(() => postgres[Symbol.asyncDispose]())

const API_KEY = 'k'.repeat(40)
const ENROLL_TOKEN = 'enroll-token-of-brokers-on-postgresql'
const lines: string[] = []
const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })

const settingsOf = (databaseUrl: string, more: Partial<BrokerConfig> = {}): BrokerConfig => ({
  ...{ dataDir: tempDir(), port: 0, databaseUrl, secretKeyFile: keyFile, publicUrl: 'http://127.0.0.1:7070' },
  ...{ enrollToken: ENROLL_TOKEN, apiKey: API_KEY, agentTimeout: 600, ...more },
})

/** A broker that ends with the test. */
async function start(parts: AsyncDisposableStack, settings: BrokerConfig) {
  const broker = createBroker(settings, { log })
  const started = await broker.start()
  parts.defer(() => broker.close())
  return { broker, ...started, ...caller(started.localUrl, API_KEY) }
}

/** Why a broker does not start. Nothing that is said or logged has the password. */
async function refusal(settings: () => BrokerConfig): Promise<string> {
  await using parts = new AsyncDisposableStack()
  const thrown = await Promise.resolve()
    .then(() => start(parts, settings()))
    .then(
      () => undefined,
      (error: unknown) => error,
    )
  expect(thrown).toBeInstanceOf(StartError)
  const { message } = thrown as StartError
  for (const secret of [PASSWORD, 'not-the-password']) expect(message + lines.join('')).not.toContain(secret)
  return message
}

test('brokers with a directory each serve the same sessions from one database, each the tokens of the other', async () => {
  await using parts = new AsyncDisposableStack()
  const databaseUrl = await postgres.emptyDatabase()
  const [a, b] = await Promise.all([start(parts, settingsOf(databaseUrl)), start(parts, settingsOf(databaseUrl))])
  const agent = await startFakeAgent({ brokerUrl: a.localUrl, enrollToken: ENROLL_TOKEN })
  parts.defer(() => agent.close())
  const [one, two] = await Promise.all([a.ensure('t'), b.ensure('t')])
  expect(two.session_id).toBe(one.session_id)
  // Each report but the first is aged by a clock with fractions of a millisecond.
  for (let report = 0; report < 3; report++) await agent.heartbeat()
  const jwks = (await a.get('/.well-known/jwks.json')).body
  expect((await b.get('/.well-known/jwks.json')).body).toEqual(jwks)
  expect((await b.refreshToken(one.session_id)).status).toBe(200)
  await a.broker.rotateKeys(true)
  const after = (await a.get('/.well-known/jwks.json')).body
  expect(after).not.toEqual(jwks)
  expect((await b.get('/.well-known/jwks.json')).body).toEqual(after)
  expect(lines.join('')).not.toContain(PASSWORD)
})

test('one directory may be used by two brokers of a database: nothing in it is shared', async () => {
  await using parts = new AsyncDisposableStack()
  const settings = settingsOf(await postgres.database())
  await start(parts, settings)
  await start(parts, settings)
})

test.for([
  ['no secret key file', { secretKeyFile: undefined }, /secretKeyFile \(--secret-key-file\).*boxoffice keys make-secret-key FILE/],
  ['no enroll token', { enrollToken: undefined }, /enrollToken \(--enroll-token\).*openssl rand/],
  ['no public URL', { publicUrl: undefined }, /publicUrl \(--public-url\)/],
  ['a secret key file that is not there', { secretKeyFile: '/nowhere/secret-keys' }, /\/nowhere\/secret-keys.*is not there/],
] as const)('%s: the start names what is missing and what to do', async ([, without, message]) => {
  const settings = Object.fromEntries(Object.entries({ ...settingsOf(wholeUrl), ...without }).filter(([, value]) => value !== undefined))
  expect(await refusal(() => settings as BrokerConfig)).toMatch(message)
})

test.for(['mysql://u:not-the-password@host/db', 'not-the-password', 'postgres//u:not-the-password@host/db', ''])(
  'a database URL that is none is refused and not quoted',
  async (databaseUrl) => {
    expect(await refusal(() => settingsOf(databaseUrl))).toMatch(/databaseUrl \(--database-url\).*postgres:\/\/USER:PASSWORD@HOST/)
  },
)

test('a database that is away, lacks the database, or refuses the password: the start names its place alone', async () => {
  const url = new URL(wholeUrl)
  const changed = (change: Partial<Pick<URL, 'port' | 'password' | 'pathname'>>) => Object.assign(new URL(url), change).href
  const place = `127.0.0.1:${url.port}`
  expect(await refusal(() => settingsOf(changed({ port: '1' })))).toMatch(/127\.0\.0\.1:1\/boxoffice_\d+ does not answer: .*ECONNREFUSED/)
  expect(await refusal(() => settingsOf(changed({ password: 'not-the-password' })))).toMatch(
    `${place}${url.pathname} does not answer: password authentication failed`,
  )
  expect(await refusal(() => settingsOf(changed({ pathname: '/nothing' })))).toMatch(
    `${place}/nothing does not answer: database "nothing" does not exist`,
  )
})

test('another secret key file than that of the database ends the start, by the ids of both; no key is made', async () => {
  const databaseUrl = await postgres.database()
  const parts = new AsyncDisposableStack()
  await start(parts, settingsOf(databaseUrl))
  await parts.disposeAsync()
  const other = join(tempDir(), 'other')
  const otherId = makeSecretKey(other)
  const [row] = await postgres.ask<{ kek_id: string }>('SELECT kek_id FROM signing_keys', [], databaseUrl)
  const message = await refusal(() => settingsOf(databaseUrl, { secretKeyFile: other }))
  expect(message).toContain(`sealed under the key ${row?.kek_id}`)
  expect(message).toContain(`has ${otherId}.`)
  expect(await postgres.ask('SELECT 1 FROM signing_keys', [], databaseUrl)).toHaveLength(1)
  expect(await rekeyDatabase(databaseUrl, keyFile)).toMatchObject({ kekId: row?.kek_id, resealed: 0, already: 1, unreadable: [] })
  expect(await rekeyDatabase(databaseUrl, other)).toMatchObject({ kekId: otherId, resealed: 0, unreadable: [{ kekId: row?.kek_id }] })
  writeFileSync(other, 'x')
  expect(await refusal(() => settingsOf(databaseUrl, { secretKeyFile: other }))).toMatch(/no key of 32 bytes/)
})

test('migrate brings a database up to date once; with migrate "never" a start only looks; a newer schema is refused', async () => {
  const databaseUrl = await postgres.emptyDatabase()
  expect(await refusal(() => settingsOf(databaseUrl, { migrate: 'never' }))).toMatch(
    /has schema 0, this program needs \d+; run: boxoffice migrate/,
  )
  expect(await postgres.ask("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", [], databaseUrl)).toEqual([])
  const to = MIGRATIONS.length
  expect(
    await Promise.all([migrateDatabase(databaseUrl), migrateDatabase(databaseUrl)]).then((all) => all.map(({ from }) => from).sort()),
  ).toEqual([0, to])
  expect(await migrateDatabase(databaseUrl)).toEqual({ from: to, to })
  await using parts = new AsyncDisposableStack()
  await start(parts, settingsOf(databaseUrl, { migrate: 'never' }))
  await parts.disposeAsync()
  await postgres.ask('UPDATE schema_version SET version = 1000', [], databaseUrl)
  expect(await refusal(() => settingsOf(databaseUrl))).toMatch(/newer Boxoffice \(schema 1000/)
  await expect(migrateDatabase(databaseUrl)).rejects.toThrow(/newer Boxoffice/)
})
