import { type ClientMatrix, passed, refused } from '../compatibility/matrix.ts'

const RUN = 'a command gives its output and exit code'
const LIFE = 'a box is listed, has a status, is stopped, started and deleted'
const BACKGROUND = 'a command in the background is streamed, has stdin, and is killed'
const AGAIN = 'a command is reconnected to at an offset, and its id runs it once'
const ALONE = 'a command without its client ends with it, after its idle timeout, at its time limit, or not'
const FILES = 'files are written and read, also outside the workspace'
const RANGES = 'a part of a file is read, and a file that has not changed is not sent'
const REFUSED = 'what is not served is refused by name'

export const matrix: ClientMatrix = {
  client: 'LangSmith (JavaScript)',
  packages: [
    { registry: 'npm', name: 'langsmith' },
    { registry: 'npm', name: 'langsmith-0.12' },
  ],
  page: 'langsmith.md',
  runs: 'local and docker, through the broker',
  suites: ['test/clients/suites/langsmith.ts'],
  operations: [
    ...passed(LIFE, 'createSandbox', 'createSandbox({ idleTtlSeconds })', 'getSandbox', 'listSandboxes', 'getSandboxStatus'),
    ...passed(LIFE, 'start, stop', 'delete'),
    ...passed(RUN, 'run', 'run({ env, cwd })'),
    ...passed('a command that runs out of time is told so', 'run({ timeout })'),
    ...passed('callbacks get each stream, and no character is split', 'run({ onStdout, onStderr })'),
    ...passed(BACKGROUND, 'run({ wait: false })', 'handle.sendInput', 'handle.kill'),
    ...passed(AGAIN, 'run({ commandId })', 'reconnect'),
    ...passed(ALONE, 'run({ killOnDisconnect })', 'run({ idleTimeout })'),
    ...passed('the environment of a box is kept over a restart of the broker, and is not shown', 'createSandbox({ runConfig: env_vars })'),
    ...passed('a command goes on when its agent is killed, and runs once', 'run, its agent killed meanwhile'),
    ...passed('execute over HTTP gives the same', 'run, without the package ws'),
    ...passed(FILES, 'write', 'read'),
    ...passed('a command at a terminal has input and output, a time limit, and is reconnected to', 'run({ pty })'),
    ...passed(RANGES, 'stat (0.12)', 'readRange (0.12)'),
    ...passed('glob and ls find entries', 'glob (0.12)', 'ls (0.12)'),
    ...passed('grep finds lines with a text', 'grep (0.12)'),
    ...passed('the sandbox of deepagents works on top', 'LangSmithSandbox of deepagents'),
    ...refused(REFUSED, 'captureSnapshot', 'createSandbox({ mountConfig })', 'updateSandbox({ newName })', 'generateDownloadURL'),
  ],
}
