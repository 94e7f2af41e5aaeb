import { expect, test } from 'vitest'
import { startControl } from './support/start-control.ts'

/** Sends an order to the one sandbox of a host, and gives the answer. */
const startOrders = async () => {
  const { host, ask } = await startControl()
  const { id } = await host.ensure('s1')
  return async (action: 'suspend' | 'resume', order?: object) =>
    (await ask('POST', `/sandboxes/${id}/${action}`, order)).body as { state: string; overtaken_by?: number }
}

const start = async () => {
  const send = await startOrders()
  return async (action: 'suspend' | 'resume', order?: object) => (await send(action, order)).state
}

test('[C-53] of the orders of several brokers one that is older than the latest is dropped, however it was overtaken', async () => {
  const send = await start()
  expect(await send('suspend', { mode: 'stop', revision: 5 })).toBe('stopped')
  expect(await send('resume', { revision: 4 })).toBe('stopped')
  expect(await send('resume', { revision: 6 })).toBe('running')
  expect(await send('suspend', { mode: 'stop', revision: 5 })).toBe('running')
  // A client waits for this one, whatever its broker knew.
  expect(await send('suspend', { mode: 'stop', revision: 5, force: true })).toBe('stopped')
  expect(await send('resume', { revision: 6 })).toBe('running')
})

test('brokers that send no revision are obeyed as before, also beside others', async () => {
  const send = await start()
  expect(await send('suspend', { mode: 'stop' })).toBe('stopped')
  expect(await send('resume')).toBe('running')
  expect(await send('suspend', { mode: 'stop', revision: 7 })).toBe('stopped')
  expect(await send('resume')).toBe('running')
  expect(await send('suspend', { mode: 'stop' })).toBe('stopped')
})

test('an order that is dropped says what has overtaken it, so that a broker whose database went back can catch up', async () => {
  const send = await startOrders()
  expect(await send('suspend', { mode: 'stop', revision: 9 })).not.toHaveProperty('overtaken_by')
  expect(await send('resume', { revision: 4 })).toMatchObject({ state: 'stopped', overtaken_by: 9 })
  expect(await send('suspend', { mode: 'freeze', revision: 4 })).toMatchObject({ state: 'stopped', overtaken_by: 9 })
  expect(await send('resume', { revision: 10 })).toMatchObject({ state: 'running' })
})
