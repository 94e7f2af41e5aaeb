import { type ClientMatrix, passed } from '../compatibility/matrix.ts'

const RUN = 'a command gives each stream, its exit code and its time'
const LIFE = 'a sandbox is made, found again by its id, and deleted'
const FILES = 'files are written, added to, read, and described'
const DIRECTORIES = 'directories are made, listed, copied, moved and deleted'
const AGAIN = 'a command is followed from where its client was, and runs once'
const ENDED = 'a command is ended by its time, and by its client'

export const matrix: ClientMatrix = {
  client: 'n8n',
  packages: [{ registry: 'npm', name: '@n8n/sandbox-client' }],
  page: 'n8n.md',
  runs: 'local and docker, through the broker',
  suites: ['test/clients/suites/n8n.ts'],
  operations: [
    ...passed(LIFE, 'createSandbox', 'createSandbox({ id, ephemeral })', 'getSandbox', 'deleteSandbox'),
    ...passed(RUN, 'exec', 'exec({ env, workdir, onStdout, onStderr })'),
    ...passed(ENDED, 'exec({ timeoutMs })', 'exec({ abortSignal })'),
    ...passed(AGAIN, 'resumeExecution', 'deleteExecution'),
    ...passed(FILES, 'readFile', 'writeFile', 'appendFile', 'stat'),
    ...passed(DIRECTORIES, 'mkdir', 'listFiles', 'copyFile', 'moveFile', 'deleteFile'),
  ],
}
