import { describe, expect, test } from 'vitest'
import { inferHostPath, rewriteInvocation, rewritePath, unwrapVenv } from '../../../../src/surfaces/mcp/sandbox/host-path.ts'

describe('MCP host_path', () => {
  test.each([
    ['no absolute path', 'python', ['server.py'], null],
    ['a script', 'python', ['/home/u/mcp/server.py'], '/home/u/mcp'],
    ['a directory as argument', 'node', ['/home/u/mcp/'], '/home/u/mcp'],
    ['a program', '/opt/tools/bin/serve', [], '/opt/tools/bin'],
    ['two in one project', 'node', ['/srv/mcp/dist/index.js', '/srv/mcp/config.json'], '/srv/mcp'],
    ['names that begin alike', 'node', ['/srv/mcp/a.js', '/srv/mcp-other/b.js'], '/srv'],
    ['.venv', '/home/u/mcp/.venv/bin/python', ['/home/u/mcp/src/server.py'], '/home/u/mcp'],
    ['venv alone', '/home/u/mcp/venv/bin/python3', ['-m', 'server'], '/home/u/mcp'],
    ['env', '/home/u/mcp/env/bin/python', [], '/home/u/mcp'],
    ['.env', '/home/u/mcp/.env/bin/python', [], '/home/u/mcp'],
    ['Scripts', '/home/u/mcp/.venv/Scripts/python.exe', [], '/home/u/mcp'],
    ['nothing in common', '/usr/bin/node', ['/home/u/server.js'], null],
    ['dots in the way', 'node', ['/home/u/x/../mcp/server.js'], '/home/u/mcp'],
  ])('[2-84] host_path of %s', (_what, command, args, expected) => {
    expect(inferHostPath({ command, args })).toBe(expected)
  })

  test.each([
    ['/home/u/mcp/server.py', '/workspace/server.py'],
    ['/home/u/mcp/a/b.py', '/workspace/a/b.py'],
    ['/home/u/mcp', '/workspace'],
    ['/home/u/mcp/', '/workspace'],
    ['/home/u/mcp-other/server.py', '/home/u/mcp-other/server.py'],
    ['/home/u', '/home/u'],
    ['server.py', 'server.py'],
    ['--root=/home/u/mcp', '--root=/home/u/mcp'],
  ])('[2-85] %s is %s in the sandbox', (path, expected) => {
    expect(rewritePath(path, '/home/u/mcp')).toBe(expected)
    expect(rewritePath(path, '/home/u/mcp/')).toBe(expected)
    expect(rewritePath(path, null)).toBe(path)
  })

  test.each([
    ['/home/u/mcp/.venv/bin/python', 'python'],
    ['/home/u/mcp/venv/bin/python3', 'python'],
    ['/home/u/mcp/env/bin/python3.11', 'python'],
    ['/home/u/mcp/.env/Scripts/python.exe', 'python'],
    ['/home/u/mcp/.venv/bin/mcp-server', '/home/u/mcp/.venv/bin/mcp-server'],
    ['/usr/bin/python3', '/usr/bin/python3'],
    ['python3', 'python3'],
    ['/home/u/bin/python', '/home/u/bin/python'],
  ])('[2-86] venv: %s becomes %s', (command, expected) => {
    expect(unwrapVenv(command)).toBe(expected)
  })

  test('[2-85, 2-86, 0-43] a whole command line, for a server with a directory of its own', () => {
    const line = { command: '/home/u/mcp/.venv/bin/python', args: ['/home/u/mcp/server.py', '--verbose'] }
    expect(rewriteInvocation(line, '/home/u/mcp')).toEqual({ command: 'python', args: ['/workspace/server.py', '--verbose'] })
    expect(rewriteInvocation(line, '/home/u/mcp', '/workspace/.mcp/a').args[0]).toBe('/workspace/.mcp/a/server.py')
  })
})
