import { pino } from 'pino'
import type { Log } from '../../src/host/log.ts'

/** A log of every level, and the lines that it has written. */
export function lineLog(): { log: Log; lines: string[] } {
  const lines: string[] = []
  return { log: pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) }), lines }
}
