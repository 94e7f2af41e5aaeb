import { expect, onTestFinished, test } from 'vitest'
import type { VerifyControlToken } from '../../src/auth/control-auth.ts'
import { createControlApp } from '../../src/control/control.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import { Host, silent } from '../host/support/host.ts'

/** The control API of a host with one sandbox: sends an order, and gives the sandbox's state after it. */
const startControl = async () => {
  const host = await Host.start(({ path, installId }) =>
    createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }),
  )
  onTestFinished(() => host[Symbol.asyncDispose]())
  const { manager, revocations } = host
  const app = createControlApp({
    ...{ manager, revocations, onKeys: async () => {}, untold: () => undefined, log: silent },
    instance: { install_id: host.installId, instance_id: '0123456789ab' },
    verify: (async () => ({})) as unknown as VerifyControlToken,
  })
  const { id } = await host.ensure('s1')
  return async (action: 'suspend' | 'resume', order?: object) => {
    const response = await app.request(`/control/v1/sandboxes/${id}/${action}`, {
      method: 'POST',
      headers: { authorization: 'Bearer x', ...(order && { 'content-type': 'application/json' }) },
      ...(order && { body: JSON.stringify(order) }),
    })
    return (await response.json()) as { state: string; overtaken_by?: number }
  }
}

const start = async () => {
  const send = await startControl()
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
  const send = await startControl()
  expect(await send('suspend', { mode: 'stop', revision: 9 })).not.toHaveProperty('overtaken_by')
  expect(await send('resume', { revision: 4 })).toMatchObject({ state: 'stopped', overtaken_by: 9 })
  expect(await send('suspend', { mode: 'freeze', revision: 4 })).toMatchObject({ state: 'stopped', overtaken_by: 9 })
  expect(await send('resume', { revision: 10 })).toMatchObject({ state: 'running' })
})
