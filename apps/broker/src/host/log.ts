import { type Logger, pino } from 'pino'

export type Log = Logger

/** JSON lines on stderr, which may be a file on a full disk. Headers, tokens and keys are never passed to it. */
export const createLog = (level: string): Log =>
  pino(
    { level, base: { part: 'broker' }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: true, maxLength: 1024 * 1024 }).on('error', () => {}),
  )
