import { execFileSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Caller, type Refusal, removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

/** The tests mount a small file system for each data directory, so they run as root, as the agent's do. */
const PLENTY = { perSecond: 1e6, burst: 1e6 }
const GUARD_MS = 180_000
const MIB = 1024 * 1024

let root: string
let dataDir: string
let broker: TestBroker | undefined
beforeEach(() => {
  root = tempDir()
  dataDir = join(root, 'disk')
  mkdirSync(dataDir)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=700', 'bxo-full', dataDir])
})
afterEach(async () => {
  try {
    await broker?.stop(true)
  } finally {
    broker = undefined
    execFileSync('umount', ['--lazy', dataDir])
    removeDir(root)
  }
})

const start = async () => {
  broker = await startTestBroker({ dataDir, rateLimits: { createPerPrincipal: PLENTY, createPerTenant: PLENTY } })
  return broker
}

/** Another program takes all the space that there is. */
function fill(): void {
  const file = openSync(join(dataDir, 'filler'), 'w')
  for (let size = MIB; size >= 1; size = Math.floor(size / 2)) {
    try {
      for (;;) writeSync(file, Buffer.alloc(size, 'x'))
    } catch (thrown) {
      expect((thrown as NodeJS.ErrnoException).code).toBe('ENOSPC')
    }
  }
  closeSync(file)
}

const makeSpace = (): void => rmSync(join(dataDir, 'filler'))

/** Uses up every page that the broker has kept. */
function takeReserve(): void {
  const db = new Database(join(dataDir, 'broker.db'))
  for (let bytes = 4 * MIB; bytes >= 1; bytes = Math.floor(bytes / 2)) {
    try {
      for (;;) db.prepare('INSERT INTO reserve (pages) VALUES (zeroblob(?))').run(bytes)
    } catch (thrown) {
      expect((thrown as { code: string }).code).toBe('SQLITE_FULL')
    }
  }
  db.close()
}

const ready = (at: Caller) => at.get<Refusal>('/readyz')

async function untilReady(at: Caller): Promise<void> {
  while ((await ready(at)).status !== 200) await delay(50)
}

const ensureAll = (at: Caller, n: number) => Promise.all(Array.from({ length: n }, (_, i) => at.ensure(`thread-${i}`)))

const isDiskFull = { status: 503, body: { error: { retryable: true, details: { reason: 'disk_full' } } } }

describe("a full disk below the broker's data directory", () => {
  test('refuses a new secret until there is space, with its key or without one, and removes one all the same', {
    timeout: GUARD_MS,
  }, async () => {
    const { send } = await start()
    const put = (name: string) => send<Refusal>('PUT', `/v1/secrets/${name}`, { value: 'x' })
    fill()
    // There is no key yet that it could be sealed under.
    expect((await put('one')).body).toMatchObject({ error: { code: 'BACKEND_UNAVAILABLE', details: { reason: 'disk_full' } } })
    makeSpace()
    await expect.poll(async () => (await put('one')).status, { timeout: 60_000 }).toBe(201)
    fill()
    await expect.poll(async () => (await put('two')).body?.error?.details, { timeout: 60_000 }).toEqual({ reason: 'disk_full' })
    expect((await send('DELETE', '/v1/secrets/one')).status).toBe(204)
    expect((await send('GET', '/v1/secrets/one')).status).toBe(404)
  })

  test(
    'what is new is 503 disk_full, 200 releases and 50 revocations work, and space makes it ready again',
    async () => {
      const at = await start()
      const agent = await at.startAgent()
      const grants = await ensureAll(at, 200)
      const kept = await at.ensure('kept')
      const keys = await Promise.all(Array.from({ length: 50 }, (_, i) => at.principal(`user-${i}`)))

      fill()
      const unready = await ready(at)
      expect([unready.status, unready.body.error.details]).toEqual([503, { reasons: ['disk_full'] }])
      const refused = [
        await at.refused({ thread_id: 'new', mode: 'ensure' }),
        await at.refused({ thread_id: 'kept', mode: 'ensure' }),
        await at.refresh(kept.session_id),
        await at.heartbeat(kept.session_id),
        await at.post('/v1/keys', { name: 'new', principal: 'new' }),
      ]
      for (const one of refused) expect(one).toMatchObject(isDiskFull)
      await expect(at.broker.rotateKeys(true)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', details: { reason: 'disk_full' } })
      expect(readdirSync(join(dataDir, 'keys'))).toHaveLength(1)
      expect(refused.every(({ headers }) => Number(headers.get('retry-after')) > 0)).toBe(true)
      expect((await at.read(kept.session_id, '?token=false')).status).toBe(200)

      const released = await Promise.all(grants.map((grant) => at.release(grant.session_id)))
      expect(released.filter(({ status }) => status !== 204)).toEqual([])
      const revoked = await Promise.all(keys.map(({ keyId }) => at.delete(`/v1/keys/${keyId}`)))
      expect(revoked.filter(({ status }) => status !== 204)).toEqual([])
      expect(await Promise.all(keys.map(async (key) => (await key.get('/v1/profiles')).status))).toEqual(keys.map(() => 401))
      await agent.until(() => grants.every((grant) => agent.revoked.get(grant.session_id) === 'released'))
      await agent.until(() => agent.sandboxes.size === 1)

      makeSpace()
      await untilReady(at)
      expect((await at.ensure('kept')).session_id).toBe(kept.session_id)
      await at.ensure('new')
      const entries = await at.get<{ entries: unknown[] }>('/v1/audit?event=sandbox.session.release&limit=500')
      expect(entries.body.entries).toHaveLength(200)
    },
    GUARD_MS,
  )

  test(
    'where the reserve is used up too, ends hold in memory, reach the agent, and are written when there is space',
    async () => {
      const at = await start()
      const agent = await at.startAgent()
      const grants = await ensureAll(at, 40)
      const user = await at.principal('user')

      fill()
      takeReserve()
      expect(await at.refused({ thread_id: 'new', mode: 'ensure' })).toMatchObject(isDiskFull)
      const released = await Promise.all(grants.slice(1).map((grant) => at.release(grant.session_id)))
      expect(released.filter(({ status }) => status !== 204)).toEqual([])
      expect((await at.delete(`/v1/keys/${user.keyId}`)).status).toBe(204)
      expect((await user.get('/v1/profiles')).status).toBe(401)
      for (const grant of grants.slice(1)) expect((await at.read(grant.session_id, '?token=false')).status).toBe(404)
      await agent.until(() => agent.sandboxes.size === 1 && agent.revoked.size === 39)

      makeSpace()
      await untilReady(at)
      await at.stop(true)
      const again = await start()
      for (const grant of grants.slice(1)) expect((await again.read(grant.session_id, '?token=false')).status).toBe(404)
      expect((await again.read(grants[0]?.session_id ?? '', '?token=false')).status).toBe(200)
      expect((await again.as(user.key).get('/v1/profiles')).status).toBe(401)
    },
    GUARD_MS,
  )

  test(
    'what holds in memory only is not forgotten by a broker that is restarted before it could be written',
    async () => {
      const at = await start()
      const agent = await at.startAgent()
      const grants = await ensureAll(at, 20)
      const user = await at.principal('user')
      fill()
      takeReserve()
      for (const grant of grants.slice(1)) expect((await at.release(grant.session_id)).status).toBe(204)
      expect((await at.delete(`/v1/keys/${user.keyId}`)).status).toBe(204)
      await agent.until(() => agent.revoked.size === 19)
      await at.stop(true)

      makeSpace()
      const again = await start()
      expect((await again.as(user.key).get('/v1/profiles')).status).toBe(401)
      for (const grant of grants.slice(1)) expect((await again.read(grant.session_id, '?token=false')).status).toBe(404)
      expect((await again.read(grants[0]?.session_id ?? '', '?token=false')).status).toBe(200)
      const { body } = await again.get<{ entries: unknown[] }>('/v1/audit?event=sandbox.session.release&limit=500')
      expect(body.entries).toHaveLength(19)
      // Once: what has been written is forgotten.
      await again.stop(true)
      const held = readFileSync(join(dataDir, 'broker.db-held'))
      expect(held.every((byte) => byte === 0)).toBe(true)
    },
    GUARD_MS,
  )
})
