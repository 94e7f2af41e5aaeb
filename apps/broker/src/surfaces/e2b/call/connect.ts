import { BoxofficeError, type ErrorCode } from '@boxoffice/protocol'

/** Codes of the Connect protocol, as E2B's clients read them. */
export type ConnectCode =
  | 'canceled'
  | 'unknown'
  | 'invalid_argument'
  | 'deadline_exceeded'
  | 'not_found'
  | 'already_exists'
  | 'permission_denied'
  | 'resource_exhausted'
  | 'failed_precondition'
  | 'aborted'
  | 'unimplemented'
  | 'internal'
  | 'unavailable'
  | 'unauthenticated'

export type ConnectError = { code: ConnectCode; message: string }

/** First byte of an envelope: a message, or the end of the stream. Compressed ones (1) are refused. */
const MESSAGE = 0
const END = 2
const HEAD_BYTES = 5

/** One message of a stream: flag, length as uint32 (big endian), JSON (contract 7.3). */
export const messageEnvelope = (message: object): Buffer => envelope(MESSAGE, message)

/** The last envelope of a stream; with an error the call has failed. */
export const endEnvelope = (error?: ConnectError): Buffer => envelope(END, error === undefined ? {} : { error })

function envelope(flag: number, value: object): Buffer {
  const json = Buffer.from(JSON.stringify(value))
  const head = Buffer.alloc(HEAD_BYTES)
  head[0] = flag
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}

/** The one message of a request that streams its response. Throws INVALID_REQUEST for anything but one whole plain envelope. */
export function readEnvelope(body: Buffer): unknown {
  if (body.length < HEAD_BYTES) throw invalid('the body is shorter than an envelope')
  if (body[0] !== MESSAGE) throw invalid('the envelope is compressed or not a message; send it as it is')
  if (body.length !== HEAD_BYTES + body.readUInt32BE(1)) throw invalid('the length of the envelope is not that of the body')
  return parseJson(body.subarray(HEAD_BYTES))
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** JSON in strict UTF-8; INVALID_REQUEST otherwise. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return bytes.length === 0 ? {} : JSON.parse(utf8.decode(bytes))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'the message is not JSON in UTF-8', { cause })
  }
}

const invalid = (message: string): BoxofficeError => new BoxofficeError('INVALID_REQUEST', message)

const CODES: { [code in ErrorCode]?: ConnectCode } = {
  TOKEN_EXPIRED: 'unavailable',
  SESSION_RELEASED: 'unavailable',
  SESSION_EXPIRED: 'unavailable',
  SANDBOX_LOST: 'unavailable',
  BINDING_NOT_FOUND: 'unavailable',
  FILE_EXISTS: 'already_exists',
  PROCESS_NOT_RUNNING: 'not_found',
  PAYLOAD_TOO_LARGE: 'resource_exhausted',
  QUOTA_EXCEEDED: 'resource_exhausted',
  TIMEOUT: 'deadline_exceeded',
}

const BY_STATUS: Readonly<Record<number, ConnectCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  409: 'failed_precondition',
  412: 'failed_precondition',
  415: 'invalid_argument',
  429: 'resource_exhausted',
  501: 'unimplemented',
  500: 'internal',
}

/** A refusal as a Connect error; what has no code of its own goes by its status. */
export const toConnectError = (error: BoxofficeError): ConnectError => ({
  code: CODES[error.code] ?? BY_STATUS[error.status] ?? 'unavailable',
  message: error.message,
})

const STATUS: Readonly<Record<ConnectCode, number>> = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  aborted: 409,
  unimplemented: 501,
  internal: 500,
  unavailable: 502,
  unauthenticated: 401,
}

/** The HTTP status of an error of a unary call. 502, not 503, for a sandbox that is gone: E2B's clients take it for that. */
export const statusOf = ({ code }: ConnectError): number => STATUS[code]
