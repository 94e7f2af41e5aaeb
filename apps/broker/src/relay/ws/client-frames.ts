import { AuthFrame, BoxofficeError, describeIssues } from '@boxoffice/protocol'

/** What the relay itself reads of a client's text messages; all others pass unread. */
export type ReadFrame = { type: 'auth'; token: string } | { type: 'ping'; id?: unknown; ts?: unknown } | { type: 'other' }

/**
 * Whether a text message could be an `auth` frame: its type is written out, or with escapes. Asked of each message, so that the ones
 * that carry data are not parsed.
 */
export const mayBeAuth = (text: Buffer): boolean => text.includes('"auth"') || text.includes('\\u')

/** The token of an `auth` frame; undefined for any other message, also for what is no JSON. Throws for a malformed `auth`. */
export function authTokenOf(text: Buffer): string | undefined {
  let value: unknown
  try {
    value = JSON.parse(text.toString())
  } catch {
    return undefined // the agent says what is wrong with it
  }
  return typeOf(value) === 'auth' ? tokenOf(value) : undefined
}

/** A message before authentication, when the relay is the one that responses. */
export function readEarlyFrame(text: Buffer): ReadFrame {
  let value: unknown
  try {
    value = JSON.parse(text.toString())
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: not valid JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BoxofficeError('INVALID_REQUEST', 'frame: must be a JSON object')
  const type = typeOf(value)
  if (typeof type !== 'string') throw new BoxofficeError('INVALID_REQUEST', 'frame: type is missing')
  if (type === 'auth') return { type, token: tokenOf(value) }
  if (type !== 'ping') return { type: 'other' }
  const { id, ts } = value as { id?: unknown; ts?: unknown }
  return { type, ...(id === undefined ? {} : { id }), ...(ts === undefined ? {} : { ts }) }
}

const typeOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as { type?: unknown }).type : undefined

function tokenOf(value: unknown): string {
  const frame = AuthFrame.safeParse(value)
  if (frame.success) return frame.data.token
  throw new BoxofficeError('INVALID_REQUEST', `auth: ${describeIssues(frame.error)}`)
}
