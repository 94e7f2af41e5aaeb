import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSecretKey } from '../../src/host/make-secret-key.ts'
import { SecretKeys } from '../../src/host/secret-keys.ts'
import { rekeyDatabase, rekeyDirectory, StartError } from '../../src/index.ts'
import { openValue } from '../../src/secrets/sealed-value.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { injecting } from '../support/injecting.ts'
import { type Postgres, startPostgres } from '../support/postgres.ts'
import { startTestBroker, tempDir } from '../support/test-broker.ts'

let postgres: Postgres
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres[Symbol.asyncDispose]())

test('`keys rekey` seals the secrets of all tenants under the first key beside a running broker, page after page', async () => {
  const databaseUrl = await postgres.database()
  const secretKeyFile = join(tempDir(), 'keys')
  const earlier = makeSecretKey(secretKeyFile)
  const fields = { databaseUrl, secretKeyFile, apiKey: 'k'.repeat(40), enrollToken: 'e'.repeat(40), publicUrl: 'http://127.0.0.1:1' }
  const broker = await startTestBroker({ ...fields, createApiKey: false })
  const north = await broker.principal('ann', { role: 'operator', tenant: 'north' })
  const names = Array.from({ length: 120 }, (_, n) => `secret-${n}`)
  await Promise.all(names.map((name) => broker.send('PUT', `/v1/secrets/${name}`, { value: `value of ${name}` })))
  await north.send('PUT', '/v1/secrets/secret-1', { value: 'of the north' })
  const first = makeSecretKey(secretKeyFile, { add: true })
  // The signing key is one more row.
  expect(await rekeyDatabase(databaseUrl, secretKeyFile)).toEqual({ kekId: first, resealed: 122, already: 0, changed: 0, unreadable: [] })
  expect(await rekeyDatabase(databaseUrl, secretKeyFile)).toMatchObject({ resealed: 0, already: 122 })
  expect(first).not.toBe(earlier)
  await broker.stop()

  await using store = await openPostgresStore(databaseUrl)
  const keys = new SecretKeys(secretKeyFile)
  const all = [...(await store.secrets.list('default', null, 1000)), ...(await store.secrets.list('north', null, 1000))]
  expect(all.map((secret) => [secret.kekId, openValue(keys, secret)]).toSorted()).toEqual(
    [...names.map((name) => [first, `value of ${name}`]), [first, 'of the north']].toSorted(),
  )
  // A file without the key of the rows changes nothing, and says which rows they are.
  const other = join(tempDir(), 'other')
  makeSecretKey(other)
  const { resealed, unreadable } = await rekeyDatabase(databaseUrl, other)
  expect([resealed, unreadable.length]).toEqual([0, 122])
  expect(unreadable).toContainEqual({ kid: 'secret-1', kekId: first })
})

test('it does the same in the data directory of a broker that runs, with the keys that are there', async () => {
  const broker = await startTestBroker({ profiles: injecting('one', 'two') })
  const agent = await broker.startAgent()
  const { session_id } = await broker.ensure('t')
  for (const name of ['one', 'two']) await broker.send('PUT', `/v1/secrets/${name}`, { value: `of ${name}` })
  const file = join(broker.dataDir, 'secret-keys')
  const first = makeSecretKey(file, { add: true })
  expect(await rekeyDirectory(broker.dataDir)).toEqual({ kekId: first, resealed: 2, already: 0, changed: 0, unreadable: [] })
  const [line] = readFileSync(file, 'utf8').split('\n')
  writeFileSync(file, `${line}\n`)
  expect(await rekeyDirectory(broker.dataDir)).toMatchObject({ resealed: 0, already: 2, unreadable: [] })
  const ask = broker.as(agent.registration?.agent_token ?? '')
  const { body } = await ask.post(`/v1/agents/${agent.id}/secrets`, { session_id, names: ['one', 'two'] })
  expect(body).toEqual({ secrets: { one: { value: 'of one', version: 1 }, two: { value: 'of two', version: 1 } } })
  await broker.stop()
  await expect(rekeyDirectory('/nowhere')).rejects.toThrow(StartError)
})
