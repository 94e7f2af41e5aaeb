import { mkdtemp, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Profile } from '@boxoffice/protocol'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createLayout } from '../../src/data-dir/layout.ts'
import { createUids } from '../../src/data-dir/uids.ts'
import { createOptions } from '../../src/providers/docker/create-options.ts'
import { createProviderSelector } from '../../src/providers/provider-selector.ts'
import { createActivity } from '../../src/sandbox/activity.ts'
import type { Provider } from '../../src/sandbox/provider.ts'
import { profileHash } from '../../src/sandboxes/provision/profile-hash.ts'
import { silent } from './support/host.ts'

const profile = (fields: Partial<Profile> = {}): Profile => Profile.parse({ name: 'p', ...fields })

describe('activity', () => {
  test('counts what runs and is attached, each end once, and is idle only without either', () => {
    let now = 0
    const activity = createActivity(() => now)
    const done = activity.run()
    const detach = activity.attach()
    now = 5000
    expect(activity.snapshot()).toEqual({ running: 1, attached: 1, idle_ms: 0 })
    done()
    done()
    detach()
    now = 7000
    expect(activity.snapshot()).toEqual({ running: 0, attached: 0, idle_ms: 2000 })
    activity.touch()
    expect(activity.snapshot().idle_ms).toBe(0)
  })
})

describe('profile hash', () => {
  const hash = profileHash(profile(), 'image')
  test('is sixteen hex digits and the same for profiles that differ in name and times only', () => {
    expect(hash).toMatch(/^[0-9a-f]{16}$/)
    expect(profileHash(profile({ name: 'other', idle_timeout_seconds: 1, pool_size: 3 }), 'image')).toBe(hash)
    expect(profileHash(profile({ image: 'image' }), 'another')).toBe(hash)
  })
  test.each<Partial<Profile>>([
    { image: 'x' },
    { network: 'on' },
    { cpus: 2 },
    { memory_mb: 64 },
    { pids_limit: 1 },
    { read_only_rootfs: false },
    { oci_runtime: 'runsc' },
  ])('changes with %o', (fields) => {
    expect(profileHash(profile(fields), 'image')).not.toBe(hash)
  })
})

describe('container options', () => {
  const spec = {
    profileHash: 'h',
    linkDirectory: '/l',
    supervisorPath: '/s',
    workspaceDirectory: '/w',
    workspaceReadOnly: false,
    mounts: [],
    pooled: false,
    uid: 5,
    gid: 6,
  }
  const maker = { installId: 'install', instanceId: 'instance' }
  const id = 'sb_01234567-89ab-4cde-8f01-23456789abcd'
  test('follow the profile', () => {
    const open = createOptions(id, { ...spec, profile: profile({ network: 'on', read_only_rootfs: false, oci_runtime: 'runsc' }) }, maker)
    expect(open).toMatchObject({
      name: 'bxo-01234567-89ab',
      User: '5:6',
      HostConfig: { NetworkMode: 'boxoffice-install', ReadonlyRootfs: false, Runtime: 'runsc' },
    })
    expect(open.HostConfig).not.toHaveProperty('Tmpfs')
    const shut = createOptions(id, { ...spec, pooled: true, profile: profile() }, maker)
    expect(shut).toMatchObject({
      name: 'bxo-pool-01234567-89ab',
      HostConfig: { NetworkMode: 'none', ReadonlyRootfs: true, CapDrop: ['ALL'] },
    })
    expect(shut.HostConfig).not.toHaveProperty('Runtime')
  })

  test('[2-28] labels of a Box session are on its container, those of others are not', () => {
    const labels = { 'langbot.box': 'true', 'langbot.session_id': 's1', team: 'secret' }
    const made = createOptions(id, { ...spec, labels, profile: profile() }, maker)
    expect(made.Labels).toEqual({
      'boxoffice.managed': 'true',
      'boxoffice.install_id': 'install',
      'boxoffice.instance_id': 'instance',
      'boxoffice.sandbox_id': id,
      'boxoffice.profile_hash': 'h',
      'langbot.box': 'true',
      'langbot.box.instance_id': 'instance',
      'langbot.session_id': 's1',
    })
    expect(Object.keys(createOptions(id, { ...spec, labels: { team: 'x' }, profile: profile() }, maker).Labels ?? {})).not.toContain('team')
  })
})

describe('user ids', () => {
  test('are never shared by two, and come back late', () => {
    const uids = createUids(1)
    const first = uids.allot().uid
    uids.claim(first + 1)
    expect(uids.allot().uid).toBe(first + 2)
    uids.free(first)
    expect(uids.allot().uid).toBe(first + 3)
    expect(createUids(2).allot().uid).not.toBe(first)
  })
})

describe('layout', () => {
  test('keeps the socket to the sandbox and names of workspaces inside their directory', async () => {
    const directory = await mkdtemp('/tmp/bxl-')
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const layout = await createLayout(directory)
    const { link } = await layout.makeDirectories('sb_x', 2_000_000_123)
    expect(await stat(link)).toMatchObject({ uid: 0, gid: 2_000_000_123, mode: 0o040710 })
    expect(layout.workspaceOf('fine-name_1')).toBe(join(directory, 'workspaces/fine-name_1'))
    for (const name of ['../up', '/abs', '.', '..', 'a/b', '', 'x'.repeat(300)])
      expect(layout.workspaceOf(name)).toMatch(/\/workspaces\/[0-9a-f]{64}$/)
  })
})

describe('provider selector', () => {
  const candidate = (name: string, status: () => Awaited<ReturnType<Provider['probe']>>) => ({
    name,
    open: async () =>
      ({
        name: 'local',
        capabilities: {
          isolation: 'none',
          suspend: [],
          limits: ['cpus'],
          network: false,
          egress: false,
          extraMounts: false,
          ociRuntimes: [],
          images: false,
        },
        probe: async () => status(),
        close: async () => {},
      }) as unknown as Provider,
  })
  test('takes the first that is available, says why there is none, and finds one later', async () => {
    let there = false
    const broken = { name: 'broken', open: async () => Promise.reject(new Error('no socket')) }
    const selector = createProviderSelector(
      [broken, candidate('late', () => (there ? { available: true } : { available: false, reason: 'not yet' }))],
      silent,
    )
    expect(await selector.look()).toBe(false)
    expect(selector.reason).toBe('broken: no socket; late: not yet')
    expect(() => selector.require()).toThrow('not yet')
    there = true
    expect(await selector.look()).toBe(true)
    expect(selector.report()).toMatchObject({ name: 'local', available: true, reason: null })
    expect(selector.report().capabilities).toEqual({
      ...{ limits: ['cpus'], network: false, egress: false, extra_mounts: false, oci_runtimes: [], images: false },
      not_enforced: ['memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size', 'workspace_disk'],
    })
    there = false
    expect(await selector.look()).toBe(false)
    expect(selector.report()).toMatchObject({ name: 'local', available: false, reason: 'not yet' })
  })
})
