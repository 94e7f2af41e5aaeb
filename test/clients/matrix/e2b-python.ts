import { type ClientMatrix, passed } from '../compatibility/matrix.ts'

export const matrix: ClientMatrix = {
  client: 'E2B (Python)',
  packages: [{ registry: 'pypi', name: 'e2b' }],
  page: 'e2b.md',
  runs: 'local and docker, through the broker',
  suites: ['test/clients/suites/e2b_sdk.py'],
  operations: [
    ...passed('test_life', 'Sandbox.create', 'Sandbox.connect', 'Sandbox.list', 'pause', 'set_timeout', 'get_info', 'kill', 'is_running'),
    ...passed('test_commands', 'commands.run', 'commands.run(envs=…)'),
    ...passed('test_background', 'commands.run(background=True, stdin=True)', 'commands.send_stdin, close_stdin', 'commands.list'),
    ...passed('test_background', 'commands.connect', 'commands.kill'),
    ...passed('test_terminal', 'pty.create', 'pty.resize', 'pty.send_stdin'),
    ...passed('test_files', 'files.read, write', 'files.list', 'files.exists, get_info', 'files.make_dir', 'files.rename', 'files.remove'),
    ...passed('test_watch', 'files.watch_dir', 'handle.get_new_events, stop'),
    ...passed('test_async', 'AsyncSandbox.create', 'AsyncSandbox.commands.run'),
  ],
}
