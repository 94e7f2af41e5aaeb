import { CommanderError } from 'commander'
import { createProgram } from './program.ts'
import { endWithReader } from './terminal/broken-pipe.ts'
import { failureLine } from './terminal/failure.ts'

const program = await createProgram(process.argv[2])
// These have something to bring to an end.
if (!['exec', 'shell', 'up', 'broker', 'agent', 'mcp'].includes(process.argv[2] ?? '')) endWithReader()
try {
  await program.parseAsync()
} catch (error) {
  // What a command line means, and help, commander has said already.
  const told = error instanceof CommanderError
  if (!told) process.stderr.write(`${failureLine(error)}\n`)
  // exec and shell keep 1 to 124 for what runs in the sandbox.
  const ownFailure = ['exec', 'shell'].includes(process.argv[2] ?? '') ? 125 : 1
  process.exitCode = told && error.exitCode === 0 ? 0 : ownFailure
}
