import { describe, expect, test } from 'vitest'
import { BUILT_IN_PROFILES, Mount, Profile, profileMounts, sameMounts } from '../src/index.ts'

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

describe('what of the host a sandbox sees', () => {
  const mount = (path: string) => Mount.parse({ host_path: `/data${path}`, mount_path: path })

  test('[0-24] a mount can be written unless it says otherwise', () => {
    expect(mount('/a')).toEqual({ host_path: '/data/a', mount_path: '/a', mode: 'rw', skip_roots: false, optional: false })
    expect(() => Mount.parse({ host_path: 'data', mount_path: '/a' })).toThrow(/absolute/)
    expect(() => Mount.parse({ host_path: '/data', mount_path: 'a' })).toThrow(/absolute/)
    expect(() => Mount.parse({ host_path: '/data', mount_path: '/a', mode: 'wr' })).toThrow()
  })

  test('of a profile alone: its mounts, and a workspace of the agent’s making', () => {
    const profile = Profile.parse({ name: 'p', host_path_mode: 'ro', mounts: [mount('/a')] })
    expect(profileMounts(profile)).toEqual({ workspace_host_path: null, workspace_mode: 'ro', mounts: [mount('/a')] })
  })

  test('[0-34] mount sets are the same by what they say', () => {
    const one = { ...profileMounts(builtIn('default')), mounts: [mount('/a'), mount('/b')] }
    expect(sameMounts(one, structuredClone(one))).toBe(true)
    expect(sameMounts(one, { ...one, mounts: one.mounts.toReversed() })).toBe(false)
    expect(sameMounts(one, { ...one, workspace_mode: 'ro' })).toBe(false)
  })
})
