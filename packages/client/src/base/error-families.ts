import { type ErrorCode, errorCodeFrom } from '@boxoffice/protocol'

/** Codes that only the client gives; the servers' own are `ErrorCode`. */
export type ClientErrorCode =
  | 'CONNECTION_FAILED' // nobody answered, or the connection stayed away longer than the reconnect window
  | 'INVALID_RESPONSE' // an answer that is not Boxoffice's: a proxy, another program on the port
  | 'OUTPUT_GAP' // bytes of a stream are lost for good
  | 'STDIN_CLOSED' // the process has ended, or its stdin was ended before
  | 'DETACHED' // this client left the process, which may go on
  | 'ALREADY_READING' // a stream has one reader at a time
  | 'BOOTSTRAP_REFUSED' // a pre-negotiated session that must not be used

/**
 * What a caller does about an error.
 *
 * | family | says | what helps |
 * | --- | --- | --- |
 * | `connection` | nobody answered, or the connection stayed away | try again later |
 * | `unavailable` | the server is there, the sandbox or its agent is not ready | try again later |
 * | `limit` | too many at once, or a quota is used up | wait for a turn, or make room |
 * | `credentials` | no key, a wrong one, or a token that has run out | other credentials |
 * | `denied` | the credentials are good, and do not allow this | ask for the capability or membership |
 * | `ended` | the session is over, or its sandbox lost | a new session |
 * | `not_found` | there is no such session, command, process, file or route | |
 * | `conflict` | something else is there or was faster | look, then decide |
 * | `input` | the request cannot be right: a path, an option, a size | change it |
 * | `unsupported` | this server or provider does not have it | |
 * | `server` | a defect, or an answer that is not in the protocol | report it, with `requestId` |
 */
export type ErrorFamily =
  | 'connection'
  | 'unavailable'
  | 'limit'
  | 'credentials'
  | 'denied'
  | 'ended'
  | 'not_found'
  | 'conflict'
  | 'input'
  | 'unsupported'
  | 'server'

const FAMILIES: Record<ErrorCode | ClientErrorCode, ErrorFamily> = {
  CONNECTION_FAILED: 'connection',
  CONNECTION_RESET: 'connection',
  SANDBOX_STARTING: 'unavailable',
  BACKEND_UNAVAILABLE: 'unavailable',
  AGENT_FULL: 'unavailable',
  TIMEOUT: 'unavailable',
  RATE_LIMITED: 'limit',
  QUOTA_EXCEEDED: 'limit',
  UNAUTHENTICATED: 'credentials',
  TOKEN_EXPIRED: 'credentials',
  FORBIDDEN: 'denied',
  CAPABILITY_DENIED: 'denied',
  PERMISSION_DENIED: 'denied',
  READ_ONLY: 'denied',
  BOOTSTRAP_REFUSED: 'denied',
  SESSION_RELEASED: 'ended',
  SESSION_EXPIRED: 'ended',
  SANDBOX_LOST: 'ended',
  BINDING_NOT_FOUND: 'not_found',
  NOT_FOUND: 'not_found',
  EXEC_NOT_FOUND: 'not_found',
  PROCESS_NOT_FOUND: 'not_found',
  FILE_NOT_FOUND: 'not_found',
  PORT_NOT_LISTENING: 'not_found',
  BINDING_CONFLICT: 'conflict',
  ALREADY_ATTACHED: 'conflict',
  TAKEN_OVER: 'conflict',
  EXEC_CONFLICT: 'conflict',
  PROCESS_CONFLICT: 'conflict',
  FILE_EXISTS: 'conflict',
  PROCESS_NOT_RUNNING: 'conflict',
  PRECONDITION_FAILED: 'conflict',
  STDIN_CLOSED: 'conflict',
  DETACHED: 'conflict',
  ALREADY_READING: 'conflict',
  OUTPUT_GAP: 'conflict',
  INVALID_REQUEST: 'input',
  INVALID_PATH: 'input',
  IS_DIRECTORY: 'input',
  NOT_A_DIRECTORY: 'input',
  NOT_A_FILE: 'input',
  DIRECTORY_NOT_EMPTY: 'input',
  METHOD_NOT_ALLOWED: 'input',
  PAYLOAD_TOO_LARGE: 'input',
  UNSUPPORTED_MEDIA_TYPE: 'input',
  RANGE_NOT_SATISFIABLE: 'input',
  UNSUPPORTED: 'unsupported',
  INTERNAL: 'server',
  INVALID_RESPONSE: 'server',
}

const BY_STATUS: Readonly<Record<number, ErrorFamily>> = {
  401: 'credentials',
  403: 'denied',
  404: 'not_found',
  409: 'conflict',
  410: 'ended',
  412: 'conflict',
  423: 'unavailable',
  429: 'limit',
  501: 'unsupported',
  503: 'unavailable',
  507: 'limit',
}

/** The family of a code under either of its names; for one of a newer server that of its HTTP status. */
export const familyOf = (code: string, status: number | undefined): ErrorFamily => {
  const name = errorCodeFrom(code) ?? code
  if (Object.hasOwn(FAMILIES, name)) return FAMILIES[name as keyof typeof FAMILIES]
  if (status === undefined) return 'server'
  return BY_STATUS[status] ?? (status >= 400 && status < 500 ? 'input' : 'server')
}
