import { failureLine } from './failure.ts'

/** Killed by the reader of our output, as a shell shows it: 128 + SIGPIPE. */
export const BROKEN_PIPE = 141

/** Whoever read our output is gone (`| head`): so is the need for the program. For one that has nothing else to bring to an end. */
export const endWithReader = (): void => {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(BROKEN_PIPE)
    process.stderr.write(`${failureLine(error)}\n`)
    process.exit(1)
  })
}
