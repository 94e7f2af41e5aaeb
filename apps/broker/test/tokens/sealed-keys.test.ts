import { randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { makeSecretKey } from '../../src/host/make-secret-key.ts'
import { SecretKeys } from '../../src/host/secret-keys.ts'
import { type Database, openDatabase } from '../../src/store/postgres/engine/database.ts'
import { postgresSigningKeys } from '../../src/store/postgres/tables/signing-keys.ts'
import type { SealedKeyRow, SealedKeyStore } from '../../src/store/sealed-key-store.ts'
import { SigningKeys } from '../../src/tokens/keys.ts'
import { rekey } from '../../src/tokens/rekey.ts'
import { SealedKeys } from '../../src/tokens/sealed-keys.ts'
import { type Postgres, startPostgres } from '../support/postgres.ts'
import { tempDir } from '../support/test-broker.ts'

let postgres: Postgres
let database: Database
let store: SealedKeyStore
let keyFile: string
const warnings: Record<string, unknown>[] = []
const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line)) })

beforeAll(async () => {
  postgres = await startPostgres()
  database = openDatabase(await postgres.database())
  store = postgresSigningKeys(database)
}, 120_000)
afterAll(async () => {
  await database[Symbol.asyncDispose]()
  await postgres[Symbol.asyncDispose]()
})
beforeEach(async () => {
  await database.once.run('DELETE FROM signing_keys')
  keyFile = join(tempDir(), 'secret-keys')
  makeSecretKey(keyFile)
  warnings.length = 0
})

const DAY = 24 * 3600_000
const openBroker = (now: () => number = Date.now, file = keyFile) =>
  SigningKeys.open(new SealedKeys({ store, secrets: new SecretKeys(file), log }), now)
const kids = (keys: SigningKeys) => keys.jwks.keys.map(({ kid }) => kid)

/** Whoever can write the database puts this there. */
const put = (row: SealedKeyRow) =>
  database.once.run(
    'INSERT INTO signing_keys (kid, jwk, active_at, created_at, withdrawn_at, sealed, kek_id) VALUES ($1, $2, $3, $4, $5, $6, $7)',
    [...[row.kid, row.jwk, row.activeAt, row.createdAt, row.withdrawnAt, row.sealed, row.kekId]],
  )
/** A whole row, sealed under the key of another file. */
const foreignRow = async (): Promise<SealedKeyRow> => {
  const file = join(tempDir(), 'attacker')
  makeSecretKey(file)
  const rows = await store.list()
  await database.once.run('DELETE FROM signing_keys')
  await openBroker(Date.now, file)
  const [made] = await store.list()
  await database.once.run('DELETE FROM signing_keys')
  for (const row of rows) await put(row)
  return made as SealedKeyRow
}

test('brokers of one database and one file have the same keys; a row holds no private part in the clear', async () => {
  const [a, b] = await Promise.all([openBroker(), openBroker()])
  expect(kids(a)).toHaveLength(1)
  expect(b.jwks).toEqual(a.jwks)
  const [row] = await store.list()
  const { d = '' } = a.current.privateKey.export({ format: 'jwk' })
  expect(d).toHaveLength(43)
  const private_ = Buffer.from(d, 'base64url')
  expect(Buffer.from(row?.sealed ?? '', 'base64url').includes(private_)).toBe(false)
  expect(JSON.stringify(row)).not.toContain(d)
})

test('who can write the database adds no key: nothing that was not sealed counts, each row is warned of once', async () => {
  const broker = await openBroker()
  const own = broker.current.kid
  const foreign = await foreignRow()
  const [row] = (await store.list()) as [SealedKeyRow]
  const kekId = row.kekId
  await put(foreign)
  await put({ ...foreign, kid: 'says-our-kek', kekId })
  await put({ ...row, kid: 'another-kid' })
  await put({ ...row, kid: `x${foreign.kid}`, jwk: foreign.jwk })
  await put({ ...row, kid: 'not-sealed', sealed: '' })
  await put({ ...row, kid: 'too-short', sealed: Buffer.alloc(20).toString('base64url') })
  for (let round = 0; round < 3; round++) await broker.reload()
  expect(kids(broker)).toEqual([own])
  expect(broker.current.kid).toBe(own)
  expect(warnings).toHaveLength(6)
  const { sealed } = foreign
  expect(JSON.stringify(warnings)).not.toContain(sealed)
  // A broker that starts now believes none of them either.
  expect(kids(await openBroker())).toEqual([own])
})

test.for([
  ['its public key', (row: SealedKeyRow, other: SealedKeyRow) => ({ ...row, jwk: other.jwk })],
  ['its public key and id', (row: SealedKeyRow, other: SealedKeyRow) => ({ ...row, jwk: other.jwk, kid: other.kid })],
  ['the time it signs from', (row: SealedKeyRow) => ({ ...row, activeAt: row.activeAt - 1 })],
  ['the time it was made', (row: SealedKeyRow) => ({ ...row, createdAt: row.createdAt + 1 })],
] as const)('a row of which somebody changed %s counts no more', async ([, change]) => {
  const broker = await openBroker()
  await broker.rotate()
  const [current, next] = broker.jwks.keys.map(({ kid }) => kid)
  const rows = await store.list()
  const row = rows.find(({ kid }) => kid === next) as SealedKeyRow
  await store.remove([row.kid])
  await put(change(row, await foreignRow()))
  await broker.reload()
  expect(kids(broker)).toEqual([current])
  expect(warnings).toHaveLength(1)
})

test('[C-49] brokers that rotate at once make one key; one that replaces takes back what the others had', async () => {
  const brokers = await Promise.all(Array.from({ length: 4 }, () => openBroker()))
  const [a, b] = brokers as [SigningKeys, SigningKeys]
  await Promise.all(brokers.map((broker) => broker.rotate()))
  expect(kids(a)).toHaveLength(2)
  for (const broker of brokers) {
    await broker.reload()
    expect(broker.jwks).toEqual(a.jwks)
  }
  const before = kids(a)
  await Promise.all([a.replace(), b.replace()])
  for (const broker of brokers) await broker.reload()
  expect(kids(a)).toHaveLength(1)
  for (const broker of brokers) {
    expect(broker.jwks).toEqual(a.jwks)
    expect(before.every((kid) => !broker.has(kid) && broker.wasWithdrawn(kid))).toBe(true)
  }
  // Its row is put back as it was: no broker that knows better takes it.
  await database.once.run('UPDATE signing_keys SET withdrawn_at = NULL')
  for (const broker of brokers) {
    await broker.reload()
    expect(kids(broker)).toHaveLength(1)
  }
})

test('[C-49] keys rotate by age, and go with what they were needed for; an old row that is put back counts no more', async () => {
  let now = Date.now()
  const broker = await openBroker(() => now)
  const [old] = (await store.list()) as [SealedKeyRow]
  now += 2 * DAY
  await broker.maintain(DAY)
  expect(kids(broker)).toHaveLength(2)
  now += 3 * 3600_000
  await broker.maintain(DAY)
  expect(kids(broker)).toHaveLength(1)
  expect(await store.list()).toHaveLength(1)
  await put(old)
  await broker.reload()
  expect(broker.has(old.kid)).toBe(false)
  await broker.replace()
  now += 3 * 3600_000
  await broker.maintain(DAY)
  expect(await store.list()).toHaveLength(1)
})

test('a new key-encryption key: added to the file of running brokers, rows sealed anew, the old one taken away', async () => {
  const broker = await openBroker()
  const oldFile = join(tempDir(), 'old')
  writeFileSync(oldFile, readFileSync(keyFile), { mode: 0o600 })
  const oldId = new SecretKeys(keyFile).first.id
  const newId = makeSecretKey(keyFile, { add: true })
  // Without a restart: what it makes from now on is sealed under the new key.
  await broker.rotate()
  expect((await store.list()).map(({ kekId }) => kekId).sort()).toEqual([oldId, newId].sort())
  const secrets = new SecretKeys(keyFile)
  expect(await rekey(store, secrets)).toEqual({ kekId: newId, resealed: 1, already: 1, changed: 0, unreadable: [] })
  expect(await rekey(store, secrets)).toEqual({ kekId: newId, resealed: 0, already: 2, changed: 0, unreadable: [] })
  await broker.reload()
  expect(kids(broker)).toHaveLength(2)
  const { ids } = secrets
  expect(ids).toEqual([newId, oldId])
  // The old line is gone: a broker that starts has all keys. With the old file alone it has none, and says why.
  const newFile = join(tempDir(), 'new')
  writeFileSync(newFile, `# since this year\n\n${readFileSync(keyFile, 'utf8').split('\n')[0]}\n`, { mode: 0o400 })
  expect(kids(await openBroker(Date.now, newFile))).toEqual(kids(broker))
  await expect(openBroker(Date.now, oldFile)).rejects.toThrow(new RegExp(`sealed under the key ${newId}.* has ${oldId}\\.`))
  expect((await rekey(store, new SecretKeys(oldFile))).unreadable.map(({ kekId }) => kekId)).toEqual([newId, newId])
})

test('rows that were all changed end the start, and no new key is made', async () => {
  await openBroker()
  await database.once.run('UPDATE signing_keys SET active_at = active_at + 1')
  await expect(openBroker()).rejects.toThrow(/their rows were changed/)
  expect(await store.list()).toHaveLength(1)
})

test.for([
  ['is not there', () => join(tempDir(), 'none'), /is not there; make one with: boxoffice keys make-secret-key/],
  ['is a directory', () => tempDir(), /is no file of keys/],
  ['is empty', () => fileOf('\n# nothing\n'), /has no key/],
  ['is too short', () => fileOf(randomBytes(31).toString('base64url')), /no key of 32 bytes as base64url at key 1/],
  ['is too long', () => fileOf(randomBytes(33).toString('base64url')), /no key of 32 bytes/],
  ['is hex', () => fileOf(randomBytes(32).toString('hex')), /no key of 32 bytes/],
  ['has a second line that is none', () => fileOf(`${randomBytes(32).toString('base64url')}\nsecret`), /at key 2/],
  ['has a key of zeros', () => fileOf(Buffer.alloc(32).toString('base64url')), /too simple/],
  ['can be read by others', () => fileOf(randomBytes(32).toString('base64url'), 0o644), /mode 644.*chmod 600/],
  ['can be read by its group', () => fileOf(randomBytes(32).toString('base64url'), 0o640), /mode 640/],
] as const)('a secret key file that %s is refused by its path, and not quoted', ([, make, message]) => {
  const path = make()
  expect(() => new SecretKeys(path)).toThrow(message)
  expect(() => new SecretKeys(path)).toThrow(path)
})

test('make-secret-key never replaces a file', () => {
  expect(() => makeSecretKey(keyFile)).toThrow(/is there/)
  expect(() => makeSecretKey(join(tempDir(), 'none', 'file'))).toThrow(/ENOENT/)
  expect(() => makeSecretKey(join(tempDir(), 'none'), { add: true })).toThrow(/is not there/)
})

function fileOf(content: string, mode = 0o600): string {
  const path = join(tempDir(), 'secret-keys')
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}
