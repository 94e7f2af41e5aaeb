import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { McpServerConfig } from '../../../src/config/mcp-server.ts'
import { createLog } from '../../../src/host/log.ts'
import { SecretKeys } from '../../../src/host/secret-keys.ts'
import type { McpServerStore } from '../../../src/store/mcp-server-store.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { resealDefinitions } from '../../../src/surfaces/mcp/peers/definitions.ts'
import { systemClock } from '../../../src/surfaces/mcp/schedule.ts'
import { SharedMcpServers } from '../../../src/surfaces/mcp/shared-servers.ts'
import { type Postgres, startPostgres } from '../../support/postgres.ts'
import { ScriptedHost } from './scripted-host.ts'

const LEASE_MS = 1500

let postgres: Postgres
let directory: string
beforeAll(async () => {
  postgres = await startPostgres()
  directory = mkdtempSync(join(tmpdir(), 'bxo-keys-'))
})
afterAll(async () => {
  await postgres?.[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
})

const definition = (name: string, fields: Record<string, unknown> = {}) => McpServerConfig.parse({ name, command: 'node', ...fields })

/** Brokers of a new database, by their numbers; what one asks of another is asked directly. */
const openBrokers = async () => {
  const url = await postgres.database()
  const keyFile = join(directory, randomUUID())
  writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const all = new Map<string, SharedMcpServers>()
  return {
    keyFile,
    async open(configured: McpServerConfig[] = []) {
      const store = await openPostgresStore(url, { connections: 4 })
      onTestFinished(() => store[Symbol.asyncDispose]())
      if (store.mcpServers === null) return expect.fail()
      const host = new ScriptedHost(systemClock)
      const brokerId = randomUUID()
      const database = store.mcpServers
      let isAway = false
      // The database cannot be reached from this broker while it is away.
      const reached = new Proxy(database, {
        get: (target, method: keyof McpServerStore) => {
          if (isAway) return () => Promise.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'the database is away'))
          return target[method]
        },
      })
      const servers = new SharedMcpServers({
        ...{ store: reached, secrets: new SecretKeys(keyFile), host, brokerId, url: `http://${brokerId}`, configured, leaseMs: LEASE_MS },
        peers: {
          forward: async ({ id }, name, request, { sid }) => (await all.get(id)?.serve(name, sid, request)) ?? expect.fail(),
          begin: async ({ id }, name) => all.get(id)?.begin(name),
          end: async ({ id }, name) => all.get(id)?.end(name),
        },
        ...{ after: undefined, clock: systemClock, log: createLog('silent') },
      })
      all.set(brokerId, servers)
      servers.start()
      onTestFinished(() => servers.close())
      return {
        ...{ servers, host, database },
        away: (on: boolean) => {
          isAway = on
        },
        status: async (name: string) => (await servers.get(name)).info.status,
        runs: async (name: string) => (await servers.locate(name))?.runtime !== undefined,
      }
    },
  }
}

test('a server runs in one broker; one that cannot prolong its lease lets it be, and touches nothing once another has it', async () => {
  const brokers = await openBrokers()
  const one = await brokers.open([definition('a')])
  await expect.poll(() => one.status('a')).toBe('connected')
  const other = await brokers.open([definition('a')])
  await expect.poll(() => other.status('a')).toBe('connected')
  expect([await one.runs('a'), await other.runs('a')]).toEqual([true, false])
  one.away(true)
  await expect.poll(() => other.runs('a')).toBe(true)
  await expect.poll(() => other.status('a')).toBe('connected')
  const calls = one.host.calls.length
  // Its process was replaced by the other one's, so that its connection ends.
  one.host.end(1, '', true)
  one.away(false)
  await expect.poll(async () => (await one.servers.locate('a'))?.forward).toBeDefined()
  expect(await one.runs('a')).toBe(false)
  await expect.poll(() => one.status('a')).toBe('connected')
  expect(one.host.calls.slice(calls)).toEqual([])
})

test('what is added, begun anew and ended at one broker is so at the one that has it; the last one of a name wins nothing', async () => {
  const brokers = await openBrokers()
  const [one, other] = [await brokers.open(), await brokers.open()]
  expect(await one.servers.add(definition('a'))).toEqual({ isNew: true })
  expect((await one.servers.settled('a', 60_000)).info).toMatchObject({ status: 'connected', tool_count: 1 })
  expect(await other.servers.add(definition('a'))).toEqual({ isNew: false })
  expect((await other.servers.settled('a', 60_000)).info).toMatchObject({ status: 'connected', tool_count: 1 })
  await expect(other.servers.add(definition('a', { args: ['x'] }))).rejects.toMatchObject({ code: 'BINDING_CONFLICT' })
  await other.servers.remove('a')
  expect(one.host.calls.filter((call) => call === 'stop' || call === 'leave')).toEqual(['stop', 'leave'])
  expect(other.host.calls).toEqual([])
  for (const { servers } of [one, other]) await expect(servers.get('a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  await expect(other.servers.remove('a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
})

test('an end that a broker could not finish is finished by another', async () => {
  const brokers = await openBrokers()
  const one = await brokers.open()
  await one.servers.add(definition('a'))
  await one.servers.settled('a', 60_000)
  // It has noted the end, and is gone.
  await one.database.end(['a'])
  one.away(true)
  const other = await brokers.open()
  await expect.poll(() => other.host.calls).toEqual(['stop', 'leave'])
  await expect.poll(() => other.database.list()).toEqual([])
})

test('the settings of the broker that starts last count: a changed server begins anew, one that is not named is ended', async () => {
  const brokers = await openBrokers()
  const one = await brokers.open([definition('changed'), definition('named')])
  for (const name of ['changed', 'named']) await expect.poll(() => one.status(name)).toBe('connected')
  await expect(one.servers.remove('named')).rejects.toMatchObject({ code: 'BINDING_CONFLICT' })
  const starts = one.host.times('start').length
  const other = await brokers.open([definition('changed', { args: ['new'] })])
  await expect.poll(() => one.host.times('start').length).toBe(starts + 1)
  await expect.poll(async () => (await other.servers.list()).map(({ name }) => name)).toEqual(['changed'])
  await expect.poll(() => other.status('changed')).toBe('connected')
})

test('a definition that was changed in the database does not count; a new secret key seals them anew', async () => {
  const brokers = await openBrokers()
  const one = await brokers.open()
  for (const name of ['a', 'b']) await one.servers.add(definition(name, { env: { TOKEN: 'secret' } }))
  const [a, b] = await one.database.list()
  if (a === undefined || b === undefined) return expect.fail()
  writeFileSync(brokers.keyFile, [randomBytes(32), await keyOf(brokers.keyFile)].map((key) => key.toString('base64url')).join('\n'))
  const keys = new SecretKeys(brokers.keyFile)
  expect(await resealDefinitions(one.database, keys)).toEqual({ kekId: keys.first.id, resealed: 2, already: 0, changed: 0, unreadable: [] })
  await expect.poll(async () => (await one.servers.list()).map(({ name }) => name)).toEqual(['a', 'b'])
  // The row of one with the definition of the other.
  await one.database.reseal('a', (await one.database.find('a'))?.sealed ?? '', b)
  expect((await one.servers.list()).map(({ name }) => name)).toEqual(['b'])
})

const keyOf = async (path: string): Promise<Buffer> => new SecretKeys(path).first.key
