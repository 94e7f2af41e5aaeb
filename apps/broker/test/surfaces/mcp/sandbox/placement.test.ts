import { describe, expect, test } from 'vitest'
import { McpServerConfig } from '../../../../src/config/mcp-server.ts'
import { directoryOf, hostPathOf, placeOf } from '../../../../src/surfaces/mcp/sandbox/placement.ts'

const server = (fields: Record<string, unknown>) => McpServerConfig.parse({ name: 'a', command: 'node', pipeline_uuid: 'p1', ...fields })

describe('MCP session', () => {
  test('[0-41, 0-42] servers of one pipeline share a session; that of another one is another', () => {
    expect(placeOf(server({})).sessionId).toBe('mcp-pipeline-p1')
    expect(placeOf(server({ name: 'b', command: 'python', env: { A: '1' } })).sessionId).toBe('mcp-pipeline-p1')
    expect(placeOf(server({ pipeline_uuid: 'p2' })).sessionId).toBe('mcp-pipeline-p2')
  })

  test('[0-41] whose image or limits differ has one with others like it', () => {
    const own = (box: Record<string, unknown>) => placeOf(server({ box })).sessionId
    expect(own({ memory_mb: 1024 })).toMatch(/^mcp-pipeline-p1-[0-9a-f]{12}$/)
    expect(own({ memory_mb: 1024 })).toBe(own({ memory_mb: 1024, startup_timeout_sec: 5, env: { A: '1' } }))
    const boxes = [
      {},
      { memory_mb: 1024 },
      { cpus: 2 },
      { pids_limit: 9 },
      { image: 'node:20' },
      { network: 'off' },
      { read_only_rootfs: true },
    ]
    expect(new Set(boxes.map(own)).size).toBe(boxes.length)
  })

  test('[0-47] where and when a server runs is the answer of one function', () => {
    expect(placeOf(server({}))).toEqual({ sessionId: 'mcp-pipeline-p1', startsAt: 'boot' })
  })

  test('[0-43, 2-84] its directory, and what of the host is shown there', () => {
    expect(directoryOf('server-a')).toBe('/workspace/.mcp/server-a')
    expect(hostPathOf(server({ args: ['/srv/mcp/index.js'] }))).toBe('/srv/mcp')
    expect(hostPathOf(server({ args: ['/srv/mcp/index.js'], box: { host_path: '/srv' } }))).toBe('/srv')
    expect(hostPathOf(server({ args: ['/srv/mcp/index.js'], box: { host_path_mode: 'none' } }))).toBeNull()
  })
})
