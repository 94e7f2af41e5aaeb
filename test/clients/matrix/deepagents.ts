import type { ClientMatrix } from '../compatibility/matrix.ts'

const passed = (operation: string, test: string) => ({ operation, result: 'passed', test: `[7.1] ${test}` }) as const

export const matrix: ClientMatrix = {
  client: 'deepagents (JavaScript)',
  packages: [{ registry: 'npm', name: 'deepagents' }],
  page: 'deepagents.md',
  runs: 'local direct and through the relay; methods of the backend and runs also on docker, both ways',
  suites: ['test/clients/suites/deepagents.ts', 'test/clients/suites/deepagents-runs.ts'],
  operations: [
    passed('create, initialize, close, isRunning, id, initialFiles', 'runs from initialize to close, once'),
    passed('execute', 'executes: exact exit codes, both streams in order, a working directory'),
    passed('execute: large output', 'gives the head of output above 16 MiB, and 50,001 lines whole'),
    passed('execute: timeout', 'ends a command that takes too long with 124'),
    passed('uploadFiles, downloadFiles', 'uploads and downloads: any bytes and names, parents, results in order'),
    passed('uploadFiles, downloadFiles: errors', 'tells of each file why it cannot be, and does the others'),
    passed('ls', 'lists directories, and nothing of one that is missing'),
    passed('read, readRaw', 'reads pages of lines, and raw'),
    passed('write, edit, delete', 'writes, edits and deletes'),
    passed('edit: many at once', 'makes edits of one file that come at once one after the other'),
    passed('grep, glob', 'finds text literally, and files by a pattern relative to their base'),
    passed('large results below `/large_tool_results`', 'keeps files of other absolute paths below /workspace'),
    passed('createDeepAgent: threads', 'keep two threads apart that run at once, and find their thread again'),
    passed('createDeepAgent: sub-agents', 'of a sub-agent work in the sandbox of its parent'),
    passed('createDeepAgent: parallel calls', 'make fifty parallel calls in one turn: all answer, in one sandbox'),
    passed(
      'createDeepAgent: an agent killed in mid-command',
      'finish with the right output when the agent is killed in a command, which runs once',
    ),
    passed('createDeepAgent: a broker restarted', 'go on over a restart of the broker'),
    passed('createDeepAgent: signal', 'that are cancelled end their command'),
    passed('configurable.sandbox', 'take a session of configurable.sandbox only while the broker is away, if it is what it says'),
  ],
}
