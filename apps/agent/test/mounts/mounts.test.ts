import { describe, expect, test } from 'vitest'
import { Host } from '../host/support/host.ts'
import { mountsSuite } from './suite.ts'
import { HostDirectories, openLocal, requestFor } from './support.ts'

describe('local, bubblewrap', () => mountsSuite(openLocal('bubblewrap')))

describe('local, without isolation', () => {
  test('[0-28] what a provider cannot mount it refuses, and says that it cannot', async () => {
    await using directories = await HostDirectories.make()
    await using host = await Host.start(openLocal('none'))
    expect(host.provider.capabilities.extraMounts).toBe(false)
    const a = await directories.add('a', { mode: 0o777 })
    const refused = { code: 'UNSUPPORTED' }
    const ensure = (wanted: Parameters<typeof requestFor>[0]) => host.manager.ensureForSession('s', requestFor(wanted))
    await expect(ensure({ mounts: [{ host_path: a, mount_path: '/data' }] })).rejects.toMatchObject(refused)
    await expect(ensure({ workspace_host_path: a, workspace_mode: 'ro' })).rejects.toMatchObject(refused)
    expect(await host.leftovers()).toEqual([])
    expect(await ensure({ workspace_host_path: a })).toMatchObject({ state: 'running' })
  })
})
