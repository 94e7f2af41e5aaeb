import { Profile } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { readCreate } from '../../../src/surfaces/langsmith/box-request.ts'

const profiles = new Map([
  ['default', Profile.parse({ name: 'default' })],
  ['python', Profile.parse({ name: 'python', workspace_quota_mb: 100 })],
])
const read = (body: object) => readCreate(body, profiles)

test('a snapshot is a profile', () => {
  expect(read({}).make.profile).toBeNull()
  expect(read({ snapshot_name: 'base' }).make.profile).toBeNull()
  expect(read({ snapshot_id: 'python' }).make.profile).toBe('python')
  expect(() => read({ snapshot_name: 'ruby' })).toThrow('no snapshot "ruby"')
})

test('sizes and times are those of the session', () => {
  const { make, waits } = read({
    vcpus: 0.5,
    mem_bytes: 1 << 28,
    fs_capacity_bytes: 1 << 30,
    idle_ttl_seconds: 600,
    delete_after_stop_seconds: 60,
    wait_for_ready: false,
  })
  expect(waits).toBe(false)
  expect(make).toMatchObject({
    wait: 0,
    overrides: {
      profile: {
        cpus: 0.5,
        memory_mb: 256,
        workspace_quota_mb: 1024,
        idle_timeout_seconds: 600,
        on_lease_expiry: 'terminate',
        lease_seconds: 660,
      },
    },
  })
})

test('sizes are at most those of the profile', () => {
  const sizes = { cpu_millicores: 64_000, mem_bytes: 2 ** 40, fs_capacity_bytes: 2 ** 40 }
  expect(read({ ...sizes, snapshot_name: 'python' }).make.overrides).toEqual({
    profile: { cpus: 1, memory_mb: 512, workspace_quota_mb: 100 },
  })
  expect(read(sizes).make.overrides).toEqual({ profile: { cpus: 1, memory_mb: 512, workspace_quota_mb: 2 ** 20 } })
})

test('what has no counterpart is refused by name, and what asks for nothing is not', () => {
  expect(() => read({ run_config: { user: 'root' } })).toThrow('run_config.user is not supported')
  expect(() => read({ run_config: { work_dir: '/srv' } })).toThrow('run_config.work_dir of a box is not supported')
  expect(() => read({ persistent: false })).toThrow('persistent: false is not supported')
  expect(() => read({ volumes: [1] })).toThrow('volumes is not supported')
  expect(read({ env_vars: {}, preserve_memory_on_stop: false, mount_config: null }).name).toBeUndefined()
  expect(() => read({ name: '../a' })).toThrow('name')
})

test('the environment of a box wins over that of its run configuration', () => {
  const { environment } = read({ env_vars: { A: 'box' }, run_config: { env_vars: { A: 'config', B: 'config' } } })
  expect(environment).toEqual({ A: 'box', B: 'config' })
})
