import { describe, expect, test } from 'vitest'
import { MCPServerBoxConfig, McpServerConfig } from '../../src/config/mcp-server.ts'

describe('MCP config', () => {
  test('[2-82] the defaults of a box; fields that are not known are left out', () => {
    const defaults = {
      image: null,
      network: null,
      host_path: null,
      host_path_mode: 'ro',
      env: {},
      startup_timeout_sec: 120,
      cpus: null,
      memory_mb: null,
      pids_limit: null,
      read_only_rootfs: null,
    }
    expect(MCPServerBoxConfig.parse({})).toEqual(defaults)
    expect(MCPServerBoxConfig.parse({ session_id: 'x', anything: [1] })).toEqual(defaults)
  })

  test('[2-83] the override of the seed, as it stands there', () => {
    const config = McpServerConfig.parse(
      JSON.parse(
        '{ "name": "my-mcp-server", "mode": "stdio", "command": "python", "args": ["server.py"], "box": { "image": "node:20", "network": "on", "host_path_mode": "ro", "startup_timeout_sec": 180 } }',
      ),
    )
    expect(config).toEqual({
      name: 'my-mcp-server',
      mode: 'stdio',
      command: 'python',
      args: ['server.py'],
      env: {},
      pipeline_uuid: 'default',
      box: MCPServerBoxConfig.parse({ image: 'node:20', network: 'on', host_path_mode: 'ro', startup_timeout_sec: 180 }),
    })
    expect(config.box).toMatchObject({ image: 'node:20', startup_timeout_sec: 180, cpus: null })
  })

  test.each([
    ['startup_timeout_sec', { startup_timeout_sec: 0 }],
    ['network', { network: 'maybe' }],
    ['host_path_mode', { host_path_mode: 'w' }],
    ['host_path', { host_path: 'relative/path' }],
    ['cpus', { cpus: 0 }],
    ['memory_mb', { memory_mb: 31 }],
    ['pids_limit', { pids_limit: 0 }],
    ['env', { env: { 'NO-NAME': '1' } }],
  ])('[2-82] a %s that cannot be is refused by its name', (field, box) => {
    expect(MCPServerBoxConfig.safeParse(box).error?.issues[0]?.path[0]).toBe(field)
  })

  test.each(['', '..', '.hidden', 'a/b', '-x', 'a b', 'x'.repeat(49)])(
    '[0-43] %j names no server: it is a directory and a process too',
    (name) => {
      expect(McpServerConfig.safeParse({ name, command: 'node' }).success).toBe(false)
    },
  )
})
