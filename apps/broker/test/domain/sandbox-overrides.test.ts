import { BUILT_IN_PROFILES, Mount, Profile } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { effectiveMounts, effectiveProfile } from '../../src/domain/sandbox-overrides.ts'

const builtIn = (name: string): Profile => {
  const profile = BUILT_IN_PROFILES.find((one) => one.name === name)
  if (profile === undefined) throw new Error(`no profile ${name}`)
  return profile
}

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
})
