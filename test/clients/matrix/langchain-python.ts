import type { ClientMatrix } from '../compatibility/matrix.ts'

export const matrix: ClientMatrix = {
  client: 'deepagents (Python)',
  packages: [
    { registry: 'pypi', name: 'deepagents' },
    { registry: 'pypi', name: 'langchain-tests' },
  ],
  page: 'langchain-python.md',
  runs: 'local and docker, direct and through the relay',
  suites: [
    'packages/langchain-boxoffice/tests/test_standard.py',
    'packages/langchain-boxoffice/tests/test_sandbox.py',
    'test/clients/python-packages.test.ts',
  ],
  operations: [
    { operation: 'SandboxIntegrationTests', result: 'passed', test: 'TestBoxofficeSandbox', note: 'all 85' },
    { operation: 'execute(timeout=)', result: 'passed', test: 'test_execute' },
    { operation: 'aexecute', result: 'passed', test: 'test_fifty_tool_calls_at_once' },
    { operation: 'ls, read, write, edit, delete', result: 'passed', test: 'test_file_methods_run_nothing_in_the_sandbox' },
    { operation: 'read(offset=, limit=)', result: 'passed', test: 'test_pages' },
    { operation: 'edit of CRLF', result: 'passed', test: 'test_crlf_is_kept' },
    { operation: 'edit, many at once', result: 'passed', test: 'test_parallel_edits_lose_nothing' },
    { operation: 'glob', result: 'passed', test: 'test_write_overwrites_and_glob_gives_absolute_files' },
    { operation: 'grep', result: 'passed', test: 'test_invented_directories_lie_below_the_workspace' },
    { operation: 'upload_files, download_files', result: 'passed', test: 'test_paths_that_cannot_be' },
    {
      operation: 'create_deep_agent(backend=)',
      result: 'passed',
      test: 'the LangGraph example runs on two threads, and the broker restarts in between',
    },
  ],
}
