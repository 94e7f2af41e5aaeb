import { randomBytes } from 'node:crypto'
import Docker from 'dockerode'
import { describe, expect, onTestFinished, test } from 'vitest'
import { dockerCandidates } from '../../../src/providers/docker/candidates.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { Host, IMAGE, type OpenProvider, silent } from '../../host/support/host.ts'
import { providerSuite } from './suite.ts'

const docker = new Docker({ socketPath: '/var/run/docker.sock' })

const open: OpenProvider = async ({ installId }, instanceId) => {
  const [candidate] = dockerCandidates({ dockerHost: 'unix:///var/run/docker.sock', installId, instanceId, log: silent })
  if (candidate === undefined) throw new Error('no candidate')
  return candidate.open()
}

const containerOf = async (sandbox: LiveSandbox): Promise<Docker.Container> => {
  const [found] = await docker.listContainers({ all: true, filters: { label: [`boxoffice.sandbox_id=${sandbox.id}`] } })
  if (found === undefined) throw new Error('no container')
  return docker.getContainer(found.Id)
}

const ofInstall = (installId: string) => docker.listContainers({ all: true, filters: { label: [`boxoffice.install_id=${installId}`] } })

describe('docker provider', () => {
  providerSuite({
    kind: 'docker',
    open,
    cycles: 200,
    accident: async (_host, sandbox) => (await containerOf(sandbox)).kill(),
    remains: async ({ installId }) => (await ofInstall(installId)).map(({ Names }) => Names.join()),
  })

  test('the engine shows the hardening', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1', { cpus: 0.5, memory_mb: 128, pids_limit: 77 })
    const { Config, HostConfig, Name, Mounts } = await (await containerOf(sandbox)).inspect()
    expect(Name).toMatch(/^\/bxo-[0-9a-f]{8}/)
    expect(Config.User).toBe(`${sandbox.file.uid}:${sandbox.file.gid}`)
    expect(Config.User).not.toMatch(/^0/)
    expect(Config.Labels).toMatchObject({
      'boxoffice.managed': 'true',
      'boxoffice.install_id': host.installId,
      'boxoffice.instance_id': expect.stringMatching(/^[0-9a-f]{12}$/),
      'boxoffice.sandbox_id': sandbox.id,
      'boxoffice.profile_hash': sandbox.file.profile_hash,
    })
    const limits = { Memory: 128 * 2 ** 20, MemorySwap: 128 * 2 ** 20, NanoCpus: 5e8, PidsLimit: 77 }
    expect(HostConfig).toMatchObject({
      ...limits,
      CapDrop: ['ALL'],
      ReadonlyRootfs: true,
      NetworkMode: 'none',
      Privileged: false,
      AutoRemove: false,
    })
    expect(HostConfig.SecurityOpt).toEqual(['no-new-privileges'])
    expect(HostConfig.LogConfig?.Type).toBe('none')
    expect(HostConfig.Tmpfs?.['/tmp']).toContain('size=67108864')
    expect(Mounts.map(({ Destination, RW }) => [Destination, RW]).sort()).toEqual([
      ['/.boxoffice/link', false],
      ['/.boxoffice/supervisor', false],
      ['/app', true],
      ['/workspace', true],
    ])
  })

  test('a profile with network gets a network of its own, on which sandboxes do not see each other', async () => {
    await using host = await Host.start(open)
    const sandbox = await host.ensure('s1', { network: 'on' })
    const { HostConfig } = await (await containerOf(sandbox)).inspect()
    expect(HostConfig.NetworkMode).toBe(`boxoffice-${host.installId}`)
    const network = await docker.getNetwork(`boxoffice-${host.installId}`).inspect()
    expect(network.Options).toMatchObject({ 'com.docker.network.bridge.enable_icc': 'false' })
  })

  test('an image that is neither here nor to be had is named, with what to do, and leaves nothing', async () => {
    await using host = await Host.start(open)
    const ensured = host.ensure('s1', { image: 'registry.invalid/no/such:image' })
    await expect(ensured).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringMatching(/registry\.invalid\/no\/such:image.*pull or build/),
    })
    expect(await host.leftovers()).toEqual([])
    expect(await ofInstall(host.installId)).toEqual([])
  })

  test('a container that cannot start is removed before the error leaves', async () => {
    await using host = await Host.start(open)
    const spec = {
      profileHash: '0'.repeat(16),
      linkDirectory: '/tmp',
      supervisorPath: '/tmp',
      workspaceDirectory: '/tmp',
      workspaceReadOnly: false,
      mounts: [],
      pooled: false,
      uid: 1234,
      gid: 1234,
    }
    const { profile } = await host.ensure('s1')
    const created = host.provider.sandboxes.create(
      'sb_broken-one',
      { ...spec, profile: { ...profile, image: IMAGE } },
      AbortSignal.timeout(60_000),
    )
    await expect(created).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect((await ofInstall(host.installId)).map(({ Labels }) => Labels['boxoffice.sandbox_id'])).not.toContain('sb_broken-one')
  })

  test('orphan cleanup safety: takes what nobody keeps and leaves what is foreign [2-29, 2-118, 2-131]', async () => {
    const before = await Host.start(open)
    const kept = await before.ensure('kept')
    const suffix = randomBytes(4).toString('hex')
    const make = async (name: string, labels: Record<string, string>): Promise<string> => {
      const container = await docker.createContainer({
        name: `test-${name}-${suffix}`,
        Image: IMAGE,
        Cmd: ['sleep', '1000'],
        Labels: labels,
      })
      await container.start()
      onTestFinished(async () => void (await container.remove({ force: true }).catch(() => {})))
      return container.id
    }
    const managed = { 'boxoffice.managed': 'true' }
    const orphan = await make('orphan', { ...managed, 'boxoffice.install_id': before.installId, 'boxoffice.sandbox_id': 'sb_gone' })
    const nameless = await make('nameless', managed)
    const another = await make('another', { ...managed, 'boxoffice.install_id': 'feedfeedfeedfeed', 'boxoffice.sandbox_id': 'sb_x' })
    const foreign = await make('foreign', { 'com.example.owner': 'somebody' })
    await using host = await before.restart()
    await host.recovery.settle([{ sandbox_id: kept.id, action: 'keep' }])
    const there = new Set((await docker.listContainers({ all: true })).map(({ Id }) => Id))
    expect([orphan, nameless, another, foreign].map((id) => there.has(id))).toEqual([false, false, true, true])
    expect(host.manager.inventory.report(kept.id)).toMatchObject({ state: 'running' })
  })
})
