import { CommanderError } from 'commander'
import { failureLine } from '../terminal/failure.ts'
import { createSbsProgram } from './program.ts'

try {
  await createSbsProgram('sbs').parseAsync()
} catch (error) {
  // What a command line means, and help, commander has said already.
  const told = error instanceof CommanderError
  if (!told) process.stderr.write(`${failureLine(error).replace(/^boxoffice/, 'sbs')}\n`)
  process.exitCode = told && error.exitCode === 0 ? 0 : 1
}
