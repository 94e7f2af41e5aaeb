import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

let broker: TestBroker
beforeAll(async () => {
  const mounts = [{ host_path: '/srv/of-the-operator', mount_path: '/data', mode: 'ro' as const, skip_roots: true }]
  broker = await startTestBroker({ profiles: [{ name: 'with-data', mounts }] })
})
afterAll(() => broker.stop())

test('profiles are shown without the host paths of their mounts', async () => {
  const { status, body } = await broker.get<{ profiles: { name: string; mounts: unknown[] }[] }>('/v1/profiles')
  expect(status).toBe(200)
  expect(JSON.stringify(body)).not.toContain('of-the-operator')
  expect(body.profiles.find(({ name }) => name === 'with-data')).toMatchObject({
    memory_mb: 512,
    mounts: [{ mount_path: '/data', mode: 'ro', optional: false }],
  })
})
