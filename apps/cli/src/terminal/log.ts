import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

/** JSON lines on stderr; for a person at a terminal, readable ones. */
export const createLog = (level: unknown): Logger => {
  const options = { level: typeof level === 'string' ? level : 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime }
  if (!process.stderr.isTTY) return pino(options, pino.destination({ dest: 2, sync: true }))
  return pino(options, pretty({ destination: 2, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss', singleLine: true }))
}
