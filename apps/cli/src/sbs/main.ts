import { CommanderError } from 'commander'
import { endWithReader } from '../terminal/broken-pipe.ts'
import { failureLine } from '../terminal/failure.ts'
import { createSbsProgram } from './program.ts'

// The server has something to bring to an end.
if (process.argv[2] !== 'run') endWithReader()
try {
  await createSbsProgram('sbs').parseAsync()
} catch (error) {
  // What a command line means, and help, commander has said already.
  const told = error instanceof CommanderError
  if (!told) process.stderr.write(`${failureLine(error).replace(/^boxoffice/, 'sbs')}\n`)
  process.exitCode = told && error.exitCode === 0 ? 0 : 1
}
