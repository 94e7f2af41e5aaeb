import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startPostgres } from '../../../apps/broker/test/support/postgres.ts'
import { makeNetwork } from '../support/network.ts'
import { startProgram } from '../support/program.ts'
import { reservePort } from '../support/reserve-port.ts'
import { API_KEY, ENROLL_TOKEN } from '../support/stack.ts'

/** Who holds the lock of the leader, as the database sees them. */
const LEADER = `SELECT host(client_addr) AS address FROM pg_locks JOIN pg_stat_activity USING (pid)
  WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = ${0x626c6561}`

test("the leader's machine vanishes without ending its connections: another broker leads soon", { timeout: 240_000 }, async () => {
  await using parts = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  using network = makeNetwork(['far'], 3)
  const { far } = network.machines
  if (far === undefined) throw new Error('no machine')
  const here = far.address.replace(/\d+$/, '1')
  const postgres = parts.use(await startPostgres({ address: here }))
  const keyFile = join(directory, 'secret.key')
  await writeFile(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const database = new URL(await postgres.database())
  const startBroker = async (host: string, enter: readonly string[] = []) => {
    database.hostname = host
    const port = String(await reservePort())
    const own = ['--port', port, '--data-dir', join(directory, host), '--public-url', 'http://127.0.0.1:7070']
    const shared = ['--database-url', database.href, '--secret-key-file', keyFile, '--enroll-token', ENROLL_TOKEN, '--api-key', API_KEY]
    return startProgram(['broker', ...own, ...shared], {}, enter)
  }
  const leaders = async () => (await postgres.ask<{ address: string }>(LEADER)).map(({ address }) => address)
  const first = await startBroker(here, far.enter)
  parts.defer(() => first.kill('SIGKILL'))
  await expect.poll(leaders).toEqual([far.address])
  const second = await startBroker('127.0.0.1')
  parts.defer(async () => void (await second.stop()))
  expect(await leaders()).toEqual([far.address])
  const vanished = performance.now()
  far.unplug()
  await expect.poll(leaders, { timeout: 90_000 }).toEqual(['127.0.0.1'])
  console.info({ leadsAfterMs: Math.round(performance.now() - vanished) })
})
