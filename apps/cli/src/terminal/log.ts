import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

/** Lines that wait for space; what comes beyond is left out. */
const WAITING_BYTES = 1024 * 1024

/** Stderr may be a file on a full disk: the lines wait, and the program goes on. */
const stderrLines = () => {
  const lines = pino.destination({ dest: 2, sync: true, maxLength: WAITING_BYTES })
  return lines.on('error', () => {})
}

/** JSON lines on stderr; for a person at a terminal, readable ones. */
export const createLog = (level: unknown): Logger => {
  const options = { level: typeof level === 'string' ? level : 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime }
  if (!process.stderr.isTTY) return pino(options, stderrLines())
  return pino(options, pretty({ destination: 2, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss', singleLine: true }))
}
