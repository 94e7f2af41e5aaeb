import { BoxofficeError } from '@boxoffice/protocol'
import { DatabaseError } from 'pg'
import { DatabaseAway } from '../../database-away.ts'

/** What a transaction that lost to another one fails with: it may be done again as a whole. */
const LOST: readonly string[] = ['40001', '40P01']
/** No space, for a table or for what is written ahead. */
const FULL = '53100'
/**
 * The database cannot answer now: connections (08), its resources (53), an operator (57: shut down, starting, a statement that took too
 * long), a transaction that was idle for too long, a lock that did not come, a standby that only reads, an error of its disk (58).
 */
const AWAY = /^(08...|53...|57...|25P03|55P03|25006|58...)$/
/** Text that PostgreSQL cannot hold: U+0000, or half a surrogate pair in JSON. */
const UNHOLDABLE: readonly string[] = ['22021', '22P05', '22P02']

const codeOf = (thrown: unknown): string | undefined => (thrown instanceof DatabaseError ? thrown.code : undefined)

/** A standby only reads, and so does a primary that is to become one. */
const READ_ONLY = '25006'

export const isReadOnly = (thrown: unknown): boolean => codeOf(thrown) === READ_ONLY

export const isLostTransaction = (thrown: unknown): boolean => LOST.includes(codeOf(thrown) ?? '')

/** Whether the connection may have an unknown state: whatever did not come from the database as the failure of a statement. */
export const isBroken = (thrown: unknown): boolean => {
  const code = codeOf(thrown)
  return code === undefined || code.startsWith('08') || code.startsWith('57P') || code === '25P03'
}

/**
 * What the caller is told of a failed statement: the database's absence as 503 with Retry-After, text that it cannot hold as 400,
 * anything else as it is, without the rows that PostgreSQL quotes.
 */
export function failureOf(thrown: unknown): unknown {
  if (thrown instanceof TypeError) return thrown
  if (!(thrown instanceof DatabaseError)) return unavailable('the database does not answer; try again', thrown)
  thrown.detail = undefined
  thrown.where = undefined
  const { code = '' } = thrown
  if (code === FULL)
    return new BoxofficeError('BACKEND_UNAVAILABLE', 'the disk of the database is full; ask again when there is space', {
      retryAfter: 5,
      details: { reason: 'disk_full' },
      cause: thrown,
    })
  if (LOST.includes(code)) return unavailable('the database is busy; try again', thrown)
  if (AWAY.test(code)) return unavailable('the database does not answer; try again', thrown)
  if (UNHOLDABLE.includes(code))
    return new BoxofficeError('INVALID_REQUEST', 'a text of the request has characters that the database cannot hold', { cause: thrown })
  return thrown
}

/** The cause as its message and code alone: an error of the driver may name its connection. */
function unavailable(message: string, thrown: unknown): DatabaseAway {
  const { message: why, code } = thrown as Error & { code?: string }
  return new DatabaseAway(message, Object.assign(new Error(why), { code }))
}
