import { describe, expect, test } from 'vitest'
import { BUILT_IN_PROFILES, effectiveMounts, effectiveProfile, Mount, Profile, sameMounts } from '../src/index.ts'

const builtIn = (name: string): Profile => {
  const profile = BUILT_IN_PROFILES.find((one) => one.name === name)
  if (profile === undefined) throw new Error(`no profile ${name}`)
  return profile
}

test('[2-01] what a sandbox is when nothing is said', () => {
  expect(Profile.parse({ name: 'p' })).toMatchObject({
    ...{ image: null, network: 'off', host_path_mode: 'rw', cpus: 1, memory_mb: 512, pids_limit: 128, read_only_rootfs: true },
    ...{ timeout_sec: 30, persistent: false, workspace_quota_mb: 0, mounts: [], user: null, app_alias: true, isolation: null },
  })
})

test.each([
  ['default', 'off', 'rw', 1, 512, 128, true, 30, 120, []],
  ['offline_readonly', 'off', 'ro', 0.5, 256, 64, true, 30, 60, ['network', 'host_path_mode', 'read_only_rootfs']],
  ['network_basic', 'on', 'rw', 1, 512, 128, true, 30, 120, []],
  ['network_extended', 'on', 'rw', 2, 1024, 256, false, 30, 300, []],
] as const)('[2-04] %s', (name, network, mode, cpus, memory, pids, readOnly, timeout, maxTimeout, locked) => {
  expect(builtIn(name)).toMatchObject({
    ...{ network, host_path_mode: mode, cpus, memory_mb: memory, pids_limit: pids, read_only_rootfs: readOnly },
    ...{ timeout_sec: timeout, max_timeout_sec: maxTimeout, max_exec_seconds: 3600 },
  })
  expect(builtIn(name).locked).toEqual(locked)
})

describe('the profile as it holds for one caller', () => {
  test('[2-06] what the caller does not say is the profile’s', () => {
    expect(effectiveProfile(builtIn('default'))).toBe(builtIn('default'))
    expect(effectiveProfile(builtIn('default'), { cpus: 2 })).toEqual({ ...builtIn('default'), cpus: 2 })
    expect(effectiveProfile(builtIn('default'), { network: undefined } as never).network).toBe('off')
  })

  test('[2-06] a global image beats the profile’s, not the caller’s', () => {
    const profile = Profile.parse({ name: 'p', image: 'own' })
    expect(effectiveProfile(profile, {}, 'global').image).toBe('global')
    expect(effectiveProfile(profile, { image: 'callers' }, 'global').image).toBe('callers')
    expect(effectiveProfile({ ...profile, locked: ['image'] }, { image: 'callers' }, 'global').image).toBe('own')
  })

  test('[2-07] locked fields are forced, and nobody is told', () => {
    const asked = { network: 'on', host_path_mode: 'rw', read_only_rootfs: false } as const
    expect(effectiveProfile(builtIn('offline_readonly'), asked)).toEqual(builtIn('offline_readonly'))
  })

  test('[2-08] others are the caller’s', () => {
    expect(effectiveProfile(builtIn('default'), { network: 'on' }).network).toBe('on')
    expect(effectiveProfile(builtIn('offline_readonly'), { cpus: 2 })).toMatchObject({ cpus: 2, network: 'off' })
  })

  test.each([[999], ['999'], [999.0], [' 999 ']])('[2-09] a timeout of %j is clamped to the profile’s', (timeout) => {
    expect(effectiveProfile(builtIn('default'), { timeout_sec: timeout as number }).timeout_sec).toBe(120)
    expect(effectiveProfile(builtIn('network_extended'), { timeout_sec: timeout as number }).timeout_sec).toBe(300)
  })

  test('[2-09] a text is read as the number that it is', () => {
    expect(effectiveProfile(builtIn('default'), { timeout_sec: '45' as never }).timeout_sec).toBe(45)
  })

  test('[2-09] an operator’s profile is held to its own maximum', () => {
    expect(effectiveProfile(Profile.parse({ name: 'p', timeout_sec: 500, max_timeout_sec: 100 })).timeout_sec).toBe(100)
  })

  test.each([
    ['timeout_sec', 0],
    ['timeout_sec', 'soon'],
    ['cpus', 0],
    ['memory_mb', 31],
    ['pids_limit', 0],
    ['network', 'maybe'],
    ['user', '0'],
  ])('[2-01, 2-06] %s: %j is refused by its name', (field, value) => {
    expect(() => effectiveProfile(builtIn('default'), { [field]: value })).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST', message: expect.stringContaining(`${field}: `), details: { field } }),
    )
  })

  test.each(['name', 'locked', 'max_timeout_sec', 'capabilities'])('[2-07] what a profile is, is no caller’s to say: %s', (field) => {
    expect(effectiveProfile(builtIn('offline_readonly'), { [field]: 'x' })).toEqual(builtIn('offline_readonly'))
  })
})

describe('what of the host a caller’s sandbox sees', () => {
  const mount = (path: string) => Mount.parse({ host_path: `/data${path}`, mount_path: path })

  test('[0-24] a mount can be written unless it says otherwise', () => {
    expect(mount('/a')).toEqual({ host_path: '/data/a', mount_path: '/a', mode: 'rw', skip_roots: false, optional: false })
    expect(() => Mount.parse({ host_path: 'data', mount_path: '/a' })).toThrow(/absolute/)
    expect(() => Mount.parse({ host_path: '/data', mount_path: 'a' })).toThrow(/absolute/)
    expect(() => Mount.parse({ host_path: '/data', mount_path: '/a', mode: 'wr' })).toThrow()
  })

  test('[0-25, 0-27] those of the profile come first, the caller’s after them, in order', () => {
    const profile = Profile.parse({ name: 'p', mounts: [mount('/a')] })
    expect(effectiveMounts(profile, { mounts: [mount('/c'), mount('/b')] }).mounts.map(({ mount_path: path }) => path)).toEqual([
      '/a',
      '/c',
      '/b',
    ])
    expect(effectiveMounts({ ...profile, locked: ['mounts'] }, { mounts: [mount('/c')] }).mounts).toEqual([mount('/a')])
  })

  test('[2-07] a locked mode is the profile’s', () => {
    const asked = { workspaceHostPath: '/data/w', workspaceMode: 'rw' } as const
    expect(effectiveMounts(builtIn('offline_readonly'), asked)).toMatchObject({ workspace_host_path: '/data/w', workspace_mode: 'ro' })
    expect(effectiveMounts(builtIn('default'), { ...asked, workspaceMode: 'none' }).workspace_mode).toBe('none')
  })

  test('[0-34] mount sets are the same by what they say', () => {
    const one = effectiveMounts(builtIn('default'), { mounts: [mount('/a'), mount('/b')] })
    expect(sameMounts(one, structuredClone(one))).toBe(true)
    expect(sameMounts(one, { ...one, mounts: one.mounts.toReversed() })).toBe(false)
    expect(sameMounts(one, { ...one, workspace_mode: 'ro' })).toBe(false)
  })
})
