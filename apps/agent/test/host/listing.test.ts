import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import type { Provider } from '../../src/sandbox/provider.ts'
import { run } from './support/exec.ts'
import { Host, silent } from './support/host.ts'

/** The provider as it is, but for a listing that fails. */
const withoutListing = (provider: Provider, asked: () => void): Provider => ({
  ...provider,
  sandboxes: {
    ...provider.sandboxes,
    list() {
      asked()
      throw new Error('the engine does not list')
    },
  },
})

test('[2-30] a start whose cleanup fails, because sandboxes cannot be listed, goes on and serves', async () => {
  let asked = 0
  await using host = await Host.start(async ({ path, installId }) =>
    withoutListing(await createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }), () => {
      asked++
    }),
  )
  expect(asked).toBe(1)
  await host.recovery.settle([])
  expect(await run(await host.ensure('s1'), 'echo up')).toMatchObject({ stdout: 'up\n' })
})

test('a sandbox that the agent holds is listed without a look at its state file', async () => {
  await using host = await Host.start(({ path, installId }) =>
    createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }),
  )
  const { id } = await host.ensure('s1')
  writeFileSync(join(host.dataDirectory, 'local', `${id}.json`), 'nothing that could be read')
  expect(await Array.fromAsync(host.provider.sandboxes.list())).toMatchObject([{ id, state: 'running' }])
})

test('a sandbox whose supervisor is linked costs the watch no question to the engine', async () => {
  const asked: string[] = []
  await using host = await Host.start(async ({ path, installId }) => {
    const provider = await createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent })
    const { sandboxes } = provider
    return {
      ...provider,
      sandboxes: {
        ...sandboxes,
        list() {
          asked.push('list')
          return sandboxes.list()
        },
        inspect(handle) {
          asked.push('inspect')
          return sandboxes.inspect(handle)
        },
      },
    }
  })
  await Promise.all(Array.from({ length: 20 }, (_, i) => host.ensure(`s${i}`)))
  asked.length = 0
  await host.manager.inventory.verifyAll()
  expect(asked).toEqual([])
})
