import type { ClientMatrix } from '../compatibility/matrix.ts'

const files = 'writes, reads, edits, lists and finds files'
const bytes = 'uploads and downloads bytes as they are'
const processes = 'starts a process, writes to it, reads its output, and ends it'
const sandbox = 'looks at its sandbox, and has a new one after it is released'

export const matrix: ClientMatrix = {
  client: 'MCP',
  packages: [
    { registry: 'npm', name: '@modelcontextprotocol/client' },
    { registry: 'npm', name: '@modelcontextprotocol/inspector' },
  ],
  page: 'mcp.md',
  runs: 'local direct over stdio and HTTP, both revisions; local through the relay, and docker both ways, over HTTP',
  suites: ['test/clients/suites/mcp.ts', 'test/clients/mcp-http.test.ts', 'test/clients/mcp-inspector.test.ts', 'test/e2e/mcp/mcp.test.ts'],
  operations: [
    { operation: 'tools/list', result: 'passed', test: '[C-73] has tools with schemas, whose arguments name no thread and no token' },
    { operation: 'exec', result: 'passed', test: '[2-16] runs commands in the sandbox that others of its thread see' },
    { operation: 'process_start, process_list, process_status', result: 'passed', test: processes },
    { operation: 'process_output, process_write, process_signal', result: 'passed', test: processes },
    { operation: 'read_file, write_file, edit_file', result: 'passed', test: files },
    { operation: 'list_dir, glob, grep', result: 'passed', test: files },
    { operation: 'upload, download', result: 'passed', test: bytes },
    { operation: 'session_info, session_release', result: 'passed', test: sandbox },
    {
      operation: 'environment/acquire, refresh, release',
      result: 'passed',
      test: '[4-173] acquires a sandbox that works, refreshes and releases it',
    },
    {
      operation: 'environment_acquire, refresh, heartbeat, release',
      result: 'passed',
      test: '[C-73] has the same as tools, whose text never holds a token',
    },
    { operation: 'notifications/progress', result: 'passed', test: 'hears that a long command goes on' },
    { operation: 'notifications/cancelled', result: 'passed', test: 'cancels a command, which is dead then' },
    { operation: 'close in the middle of a call', result: 'passed', test: 'goes, and its command ends' },
    {
      operation: 'inspector --method tools/list --strict',
      result: 'passed',
      test: 'lists the tools, and finds nothing wrong with their schemas',
    },
    { operation: 'inspector --method tools/call', result: 'passed', test: 'runs a command, and reads a file' },
  ],
}
