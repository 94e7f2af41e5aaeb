import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { SandboxEnvironment, SandboxEnvironments } from '../../../src/surfaces/facade/sandbox-environments.ts'
import { startTestBroker } from '../../support/test-broker.ts'

test('the environment of a sandbox is kept until its session ends', async () => {
  const broker = await startTestBroker()
  onTestFinished(() => broker.stop())
  await broker.startAgent()
  await using store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  const alice = await broker.principal('alice')
  const { session_id: id } = await alice.ensure('t')
  const environments = new SandboxEnvironments(store.environments)
  await environments.keep(id, { A: 'one', B: 'secret-two' })
  await environments.keep(id, {})
  expect(await environments.withOwn(id, { B: 'own' })).toEqual({ A: 'one', B: 'own' })
  const session = await store.sessions.byId(id)
  expect(JSON.stringify(session)).not.toContain('secret-two')
  expect((await alice.release(id)).status).toBeLessThan(300)
  expect(await store.environments.of(id)).toBeUndefined()
  await environments.keep(id, { A: 'late' })
  expect(await environments.withOwn(id, null)).toEqual({})
})

test('the environment of a sandbox is limited', () => {
  expect(SandboxEnvironment.safeParse({ A: 'x'.repeat(70_000) }).success).toBe(false)
  expect(SandboxEnvironment.safeParse({ 'A=B': 'x' }).success).toBe(false)
})
