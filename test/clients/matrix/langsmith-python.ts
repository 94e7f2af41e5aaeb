import { type ClientMatrix, passed, refused } from '../compatibility/matrix.ts'

export const matrix: ClientMatrix = {
  client: 'LangSmith (Python)',
  packages: [{ registry: 'pypi', name: 'langsmith' }],
  page: 'langsmith.md',
  runs: 'local, through the broker',
  suites: ['test/clients/suites/langsmith_sdk.py'],
  operations: [
    ...passed(
      'test_life',
      'create_sandbox',
      'sandbox',
      'get_sandbox',
      'list_sandboxes',
      'get_sandbox_status',
      'start, stop',
      'delete_sandbox',
    ),
    ...passed('test_run', 'create_sandbox(run_config=env_vars)', 'run', 'run(env=…)', 'run(run_config=…)', 'run(on_stdout=…)'),
    ...passed('test_background', 'run(wait=False)', 'handle.send_input, close_input', 'handle.kill'),
    ...passed('test_reconnect', 'reconnect'),
    ...passed('test_terminal', 'run(pty=True)'),
    ...passed('test_files', 'write', 'read', 'stat', 'read_range'),
    ...passed('test_search', 'glob', 'ls', 'grep'),
    ...passed('test_async', 'AsyncSandboxClient.sandbox', 'AsyncSandbox.run'),
    ...refused('test_refusals', 'capture_snapshot', 'create_sandbox(persistent=False)', 'run(run_config=user)'),
  ],
}
