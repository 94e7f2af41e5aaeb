import type { ClientMatrix } from '../compatibility/matrix.ts'

export const matrix: ClientMatrix = {
  client: 'Vercel AI SDK',
  packages: [{ registry: 'npm', name: 'ai' }],
  page: 'ai-sdk.md',
  runs: 'local and docker, direct and through the relay',
  suites: ['test/clients/suites/ai-sdk.ts'],
  operations: [
    { operation: 'generateText({ experimental_sandbox })', result: 'passed', test: 'a tool of generateText runs commands in the sandbox' },
    { operation: 'description', result: 'passed', test: 'the description names neither addresses nor tokens' },
    { operation: 'run', result: 'passed', test: 'run gives exit code and both streams' },
    { operation: 'run({ abortSignal })', result: 'passed', test: 'an abort ends run and spawn with its reason' },
    { operation: 'spawn', result: 'passed', test: 'a process without stdin has none' },
    { operation: 'spawn({ stdin: true })', result: 'passed', test: 'a spawned process streams, takes input and ends' },
    { operation: 'spawn({ abortSignal })', result: 'passed', test: 'an abort ends run and spawn with its reason' },
    { operation: 'wait, kill', result: 'passed', test: 'kill ends a process, and a second time is fine' },
    {
      operation: 'readFile, readBinaryFile, readTextFile',
      result: 'passed',
      test: 'files are written and read as text, bytes and streams',
    },
    { operation: 'readTextFile({ startLine, endLine, encoding })', result: 'passed', test: 'text has ranges of lines and encodings' },
    {
      operation: 'writeFile, writeBinaryFile, writeTextFile',
      result: 'passed',
      test: 'files are written and read as text, bytes and streams',
    },
    {
      operation: 'writeTextFile({ encoding }) but utf-8, utf-16le',
      result: '501',
      test: 'an encoding that nobody can write is refused by name',
    },
    { operation: 'stat', result: 'passed', test: 'stat and listDirectory tell types, deleteFile deletes links' },
    { operation: 'listDirectory', result: 'passed', test: 'stat and listDirectory tell types, deleteFile deletes links' },
    { operation: 'deleteFile', result: 'passed', test: 'stat and listDirectory tell types, deleteFile deletes links' },
    { operation: 'any of a missing file', result: 'passed', test: 'what is missing is null' },
  ],
}
