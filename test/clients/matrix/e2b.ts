import { type ClientMatrix, passed, refused } from '../compatibility/matrix.ts'

const COMMANDS = 'a background command has stdin, is listed, connected to and killed'
const FILES = 'a file is written, read, listed, moved and removed'
const LIFE = 'a sandbox is paused, resumed and killed'
const REFUSED = 'what is not served is refused by name'

export const matrix: ClientMatrix = {
  client: 'E2B (JavaScript)',
  packages: [{ registry: 'npm', name: 'e2b' }],
  page: 'e2b.md',
  runs: 'local and docker, through the broker',
  suites: ['commands', 'files', 'life', 'access'].map((name) => `test/clients/suites/e2b/${name}.ts`),
  operations: [
    ...passed(LIFE, 'Sandbox.create', 'Sandbox.connect', 'Sandbox.getInfo', 'pause', 'kill', 'isRunning'),
    ...passed('a sandbox ends after its timeout, and moves it', 'timeoutMs, setTimeout', "lifecycle.onTimeout: 'pause'"),
    ...passed('sandboxes are listed in pages', 'Sandbox.list'),
    ...passed('a sandbox shares the session of a thread with other clients', 'metadata.thread_id'),
    ...passed('a command gives its output and exit code', 'commands.run', 'commands.run({ envs })'),
    ...passed('the environment of a sandbox is that of its commands', 'Sandbox.create({ envs })'),
    ...passed('output is streamed, in time and whole', 'commands.run({ onStdout })'),
    ...passed('a command is ended after its timeout', 'commands.run({ timeoutMs })'),
    ...passed(COMMANDS, 'commands.run({ background, stdin })', 'commands.sendStdin, closeStdin', 'commands.list'),
    ...passed(COMMANDS, 'commands.connect', 'commands.kill', 'handle.wait, disconnect, kill'),
    ...passed('a terminal takes input and another size', 'pty.create', 'pty.resize', 'pty.sendInput'),
    ...passed(FILES, 'files.read, write', 'files.write of several', 'files.list', 'files.exists, getInfo'),
    ...passed(FILES, 'files.makeDir', 'files.rename', 'files.remove'),
    ...passed('files are streams, compressed on request, and have ranges', "files.read({ format: 'stream' })", 'files.write({ gzip })'),
    ...passed('changes of a directory are told', 'files.watchDir'),
    ...refused(REFUSED, 'files.watchDir({ includeEntry })', 'files.write({ metadata })', 'Sandbox.create({ network })', 'updateNetwork'),
    ...refused(REFUSED, 'uploadUrl, downloadUrl'),
    ...refused(REFUSED, 'commands.run({ user: root })', 'getMetrics', 'createSnapshot', 'Sandbox.fork'),
  ],
}
