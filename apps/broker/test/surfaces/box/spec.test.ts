import { BUILT_IN_PROFILES, type Profile } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { BoxSettings } from '../../../src/config/box.ts'
import { BoxSpec } from '../../../src/surfaces/box/spec.ts'
import { timeoutOf, wantedOf } from '../../../src/surfaces/box/wanted.ts'

const settings = BoxSettings.parse({})
const profileOf = (name: string): Profile => BUILT_IN_PROFILES.find((profile) => profile.name === name) as Profile
const wanted = (profile: string, spec: object, pipeline: object | null = null, more: object = {}) =>
  wantedOf(
    BoxSpec.parse(spec),
    profileOf(profile),
    { ...settings, ...more },
    pipeline === null ? null : (BoxSettings.parse({ pipelines: [{ uuid: 'p', ...pipeline }] }).pipelines[0] ?? null),
  )
const problem = (spec: object) => {
  const issue = BoxSpec.safeParse(spec).error?.issues[0]
  return issue && { field: issue.path.join('.'), message: issue.message }
}

describe('a Box spec', () => {
  test('[2-01] what nothing is said of is the default profile’s', () => {
    expect(wanted('default', {}).profile).toMatchObject({
      network: 'off',
      host_path_mode: 'rw',
      cpus: 1,
      memory_mb: 512,
      pids_limit: 128,
      read_only_rootfs: true,
      timeout_sec: 30,
      persistent: false,
      workspace_quota_mb: 0,
      image: null,
    })
    expect(BoxSpec.parse({ session_id: '  s1 ' }).session_id).toBe('s1')
    expect(BoxSpec.parse({})).toMatchObject({ cmd: '' })
    expect(wanted('default', {}).mounts).toEqual({ workspace_host_path: null, workspace_mode: 'rw', mounts: [] })
  })

  test.each([
    ['session_id', { session_id: '  ' }],
    ['timeout_sec', { timeout_sec: 0 }],
    ['host_path', { host_path: 'relative' }],
    ['cpus', { cpus: 0 }],
    ['memory_mb', { memory_mb: 31 }],
    ['pids_limit', { pids_limit: 0 }],
    ['skill_name', { skill_name: '../x' }],
    ['network', { network: 'maybe' }],
    ['mount_path', { mount_path: '/elsewhere' }],
  ])('[2-01, 2-42] a %s that cannot be is refused by its name', (field, spec) => {
    expect(problem(spec)?.field).toBe(field)
  })

  test('[2-115, 2-131] mount mode none: any absolute workdir; else below where the host path is', () => {
    expect(problem({ host_path: '/srv', host_path_mode: 'none', workdir: '/tmp' })).toBeUndefined()
    expect(problem({ host_path: '/srv', workdir: '/tmp' })).toMatchObject({ field: 'workdir' })
    expect(problem({ host_path: '/srv', workdir: '/workspacex' })).toMatchObject({ field: 'workdir' })
    expect(problem({ host_path: '/srv', workdir: '/workspace/deep' })).toBeUndefined()
    expect(problem({ workdir: '/tmp' })).toBeUndefined()
  })
})

describe('[2-132] Profile', () => {
  test('[2-06, 2-08] the caller’s value, else the profile’s; the configured image beats the profile’s and not the caller’s', () => {
    expect(wanted('network_extended', { cpus: 1.5 }).profile).toMatchObject({ cpus: 1.5, memory_mb: 1024, network: 'on' })
    expect(wanted('default', { network: 'on' }).profile.network).toBe('on')
    expect(wanted('default', {}, null, { image: 'global:1' }).profile.image).toBe('global:1')
    expect(wanted('default', { image: 'own:1' }, null, { image: 'global:1' }).profile.image).toBe('own:1')
  })

  test('[2-07, 2-132] locked field: silently forced', () => {
    const { profile, mounts } = wanted('offline_readonly', {
      network: 'on',
      host_path_mode: 'rw',
      read_only_rootfs: false,
      host_path: '/srv',
    })
    expect(profile).toMatchObject({ network: 'off', host_path_mode: 'ro', read_only_rootfs: true })
    expect(mounts.workspace_mode).toBe('ro')
  })

  test.each([
    ['999', 120],
    [999.0, 120],
    [undefined, 30],
    [5, 5],
  ])('[2-09] a timeout of %j is %d s', (timeout_sec, seconds) => {
    expect(timeoutOf(BoxSpec.parse({ timeout_sec }), profileOf('default'))).toBe(seconds)
  })

  test('[2-21, 2-22] the TTL is the lease, at whose end the session ends; none for persistent ones and with a TTL of 0', () => {
    expect(wanted('default', {}).profile).toMatchObject({ lease_seconds: 300, on_lease_expiry: 'terminate' })
    for (const profile of [wanted('default', { persistent: true }).profile, wanted('default', {}, null, { sessionTtlSec: 0 }).profile])
      expect(profile.lease_seconds).toBeGreaterThan(365 * 24 * 3600)
  })
})

describe('[0-52] extra mounts', () => {
  const skills = [
    { name: 'a', package_root: '/skills/a' },
    { name: 'b', package_root: '/skills/b' },
  ]
  const mount = { host_path: '/srv/x', mount_path: '/workspace/x' }

  test('[0-24, 0-25, 0-27] are added to the primary one, which comes first, in their order', () => {
    const { mounts } = wanted('default', { host_path: '/srv/w', extra_mounts: [mount, { ...mount, mount_path: '/y', mode: 'ro' }] })
    expect(mounts.workspace_host_path).toBe('/srv/w')
    expect(mounts.mounts.map(({ mount_path, mode }) => [mount_path, mode])).toEqual([
      ['/workspace/x', 'rw'],
      ['/y', 'ro'],
    ])
  })

  test('[0-29, 0-30] all skills of a pipeline are among them, whichever is named', () => {
    for (const spec of [{}, { skill_name: 'a' }, { skill_name: 'b', extra_mounts: [] }])
      expect(wanted('default', spec, { skills }).mounts.mounts.map(({ mount_path, mode }) => [mount_path, mode])).toEqual([
        ['/workspace/.skills/a', 'rw'],
        ['/workspace/.skills/b', 'rw'],
      ])
  })

  test('a host path that is to be elsewhere is a mount, before the others', () => {
    const { mounts } = wanted('default', { host_path: '/srv/w', mount_path: '/data', host_path_mode: 'ro', extra_mounts: [mount] })
    expect(mounts.workspace_host_path).toBeNull()
    expect(mounts.mounts.map(({ mount_path, mode }) => [mount_path, mode])).toEqual([
      ['/data', 'ro'],
      ['/workspace/x', 'rw'],
    ])
  })
})

describe('[0-52, 0-17] scope template of a pipeline', () => {
  test('is the default where the configuration has none', () => {
    const [old] = BoxSettings.parse({ pipelines: [{ uuid: 'p' }] }).pipelines
    expect(old?.['box-session-id-template']).toBe('{launcher_type}_{launcher_id}')
  })
})
