import { expect, test } from 'vitest'
import { McpServerConfig } from '../../../../src/config/mcp-server.ts'
import { sandboxOf, warningsOf } from '../../../../src/surfaces/mcp/sandbox/payload.ts'

const server = (name: string, fields: Record<string, unknown> = {}) =>
  McpServerConfig.parse({ name, command: 'node', args: [`/srv/${name}/index.js`], ...fields })
const mount = (name: string, mode = 'ro') => ({
  host_path: `/srv/${name}`,
  mount_path: `/workspace/.mcp/${name}`,
  mode,
  skip_roots: true,
  optional: false,
})

test('[2-82, 2-96, 2-131] payload: network and a root that can be written, files read-only beside the allowed roots', () => {
  const { profile, mounts } = sandboxOf(server('a'), [server('a')], { isolation: 'container', network: true, egress: false })
  expect(profile).toMatchObject({ network: 'on', read_only_rootfs: false, app_alias: true })
  for (const name of ['image', 'cpus', 'memory_mb', 'pids_limit', 'env']) expect(profile).not.toHaveProperty(name)
  expect(mounts).toEqual([mount('a')])
})

test('[2-82, 2-83, 2-131] payload: what a box says for itself', () => {
  const box = { image: 'node:20', network: 'off', cpus: 2, memory_mb: 1024, pids_limit: 64, read_only_rootfs: true, host_path_mode: 'rw' }
  const { profile, mounts } = sandboxOf(server('a', { box }), [server('a', { box })], {
    isolation: 'container',
    network: true,
    egress: false,
  })
  expect(profile).toMatchObject({
    image: 'node:20',
    network: 'off',
    cpus: 2,
    memory_mb: 1024,
    pids_limit: 64,
    read_only_rootfs: true,
    app_alias: false,
  })
  expect(mounts).toEqual([mount('a', 'rw')])
})

test('[0-42, 2-131] payload: everybody who lives there sees their files, whoever asks first and in whatever order', () => {
  const [a, b, none] = [server('a'), server('b'), server('c', { box: { host_path_mode: 'none' } })]
  expect(sandboxOf(b, [none, b, a], { isolation: 'bubblewrap', network: true, egress: false }).mounts).toEqual([mount('a'), mount('b')])
  expect(sandboxOf(a, [a, b, none], { isolation: 'bubblewrap', network: true, egress: false })).toEqual(
    sandboxOf(b, [b, none, a], { isolation: 'bubblewrap', network: true, egress: false }),
  )
})

test('[2-81, 2-131] payload: where nothing isolates nothing is mounted', () => {
  expect(sandboxOf(server('a'), [server('a')], { isolation: 'none', network: true, egress: false }).mounts).toEqual([])
})

test('[2-82, 2-94] network that nobody has named: the proxy, else on where it can be granted, else off and said; what was named is asked for', () => {
  const proxied = { isolation: 'bubblewrap', network: false, egress: true }
  const open = { isolation: 'container', network: true, egress: false }
  const closed = { isolation: 'none', network: false, egress: false }
  const networkOf = (network: 'on' | 'off' | null, around: typeof open) => {
    const config = server('a', { box: { network } })
    return [sandboxOf(config, [config], around).profile?.network, warningsOf(config, around).length]
  }
  expect([networkOf(null, proxied), networkOf(null, { ...open, egress: true }), networkOf(null, open), networkOf(null, closed)]).toEqual([
    ['proxy', 0],
    ['proxy', 0],
    ['on', 0],
    ['off', 1],
  ])
  expect(sandboxOf(server('a'), [], proxied).profile?.egress).toEqual({ allow: ['*'] })
  expect([networkOf('on', proxied), networkOf('on', closed), networkOf('off', proxied)]).toEqual([
    ['on', 0],
    ['on', 0],
    ['off', 0],
  ])
})
