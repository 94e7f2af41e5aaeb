import { type Logger, pino } from 'pino'

/** JSON lines on stderr; for a person at a terminal, readable ones. */
export const createLog = (level: unknown): Logger => {
  const options = { level: typeof level === 'string' ? level : 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime }
  if (!process.stderr.isTTY) return pino(options, pino.destination({ dest: 2, sync: true }))
  const target = { target: 'pino-pretty', options: { destination: 2, ignore: 'pid,hostname', translateTime: 'HH:MM:ss', singleLine: true } }
  return pino({ ...options, transport: target })
}
