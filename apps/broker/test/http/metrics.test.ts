import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Metrics } from '../../src/http/metrics.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { tempDir } from '../support/test-broker.ts'

test('what holds for the whole database is told by the leader alone; the rest also while the database is away', async () => {
  await using store = await openSqliteStore(join(tempDir(), 'broker.db'))
  let leads: () => Promise<boolean> = store.brokers.leads
  const metrics = new Metrics({ ...store, brokers: { ...store.brokers, leads: () => leads() } })
  const lines = async () => (await metrics.text()).match(/^boxoffice_(?:sessions|agents)\{.*$/gm) ?? []
  expect(await lines()).toContain('boxoffice_sessions{state="active"} 0')
  leads = async () => false
  expect(await lines()).toEqual([])
  leads = () => Promise.reject(new Error('the database is away'))
  metrics.refused('BACKEND_UNAVAILABLE')
  expect(await lines()).toEqual([])
  expect(await metrics.text()).toContain('boxoffice_broker_errors_total{code="BACKEND_UNAVAILABLE"} 1')
})
