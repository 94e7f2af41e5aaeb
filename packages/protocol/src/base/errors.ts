import { z } from 'zod'

/** What one error code means on each surface. `close` is the WebSocket close code, absent where no socket can end with it. */
export type ErrorRow = {
  status: number
  close?: number
  /** The name on MVP routes, where it differs [C-45]. */
  mvp?: string
  /** A second name that readers of the other shape know it by. */
  alias?: string
}

const row = (status: number, close?: number, names: Omit<ErrorRow, 'status' | 'close'> = {}): ErrorRow => ({
  status,
  ...(close === undefined ? {} : { close }),
  ...names,
})

/** Every error of both planes, once: contract section 2.6. Codes carry their full name; MVP routes show `mvp`. */
export const ERRORS = {
  INVALID_REQUEST: row(400, 4400),
  INVALID_PATH: row(400, 4400),
  IS_DIRECTORY: row(400, 4400),
  NOT_A_DIRECTORY: row(400, 4400),
  NOT_A_FILE: row(400, 4400),
  DIRECTORY_NOT_EMPTY: row(400, 4400),
  UNAUTHENTICATED: row(401, 4401),
  TOKEN_EXPIRED: row(401, 4401, { alias: 'UNAUTHENTICATED' }),
  SESSION_RELEASED: row(401, 4410),
  FORBIDDEN: row(403, 4403),
  CAPABILITY_DENIED: row(403, 4403),
  PERMISSION_DENIED: row(403, 4403),
  READ_ONLY: row(403, 4403),
  BINDING_NOT_FOUND: row(404, 4404, { mvp: 'SESSION_NOT_FOUND' }),
  NOT_FOUND: row(404, 4404),
  EXEC_NOT_FOUND: row(404, 4404),
  PROCESS_NOT_FOUND: row(404, 4404),
  FILE_NOT_FOUND: row(404, 4404),
  METHOD_NOT_ALLOWED: row(405),
  TIMEOUT: row(408, 4408),
  BINDING_CONFLICT: row(409, 4409, { mvp: 'SESSION_CONFLICT' }),
  ALREADY_ATTACHED: row(409, 4409),
  TAKEN_OVER: row(409, 4409),
  EXEC_CONFLICT: row(409, 4409),
  PROCESS_CONFLICT: row(409, 4409),
  FILE_EXISTS: row(409, 4409),
  PROCESS_NOT_RUNNING: row(409, 4409),
  SESSION_EXPIRED: row(410, 4410, { alias: 'BINDING_EXPIRED' }),
  PRECONDITION_FAILED: row(412),
  PAYLOAD_TOO_LARGE: row(413, 1009),
  UNSUPPORTED_MEDIA_TYPE: row(415, 1003),
  RANGE_NOT_SATISFIABLE: row(416),
  SANDBOX_STARTING: row(423, 4423),
  RATE_LIMITED: row(429, 4429),
  INTERNAL: row(500, 1011),
  UNSUPPORTED: row(501, 4400),
  PORT_NOT_LISTENING: row(502, 4502),
  CONNECTION_RESET: row(502, 4502),
  BACKEND_UNAVAILABLE: row(503, 4503, { mvp: 'PROVIDER_UNAVAILABLE' }),
  AGENT_FULL: row(503, 4503, { alias: 'BACKEND_UNAVAILABLE' }),
  SANDBOX_LOST: row(503, 4503, { alias: 'BACKEND_UNAVAILABLE' }),
  QUOTA_EXCEEDED: row(507, 4400),
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof ERRORS

/** Which of its two names an error shows: `mvp` on `/refresh`, `DELETE` and `thread_id` requests, `full` elsewhere [C-45]. */
export type ErrorNaming = 'mvp' | 'full'

/** The body of every refusal, on both planes [4-160]. */
export const ErrorEnvelope = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    retryable: z.boolean(),
    request_id: z.string(),
    aliases: z.array(z.string()).optional(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
  detail: z.string(),
})
export type ErrorEnvelope = z.infer<typeof ErrorEnvelope>

export type ErrorOptions = {
  details?: Record<string, unknown>
  /** Whole seconds; sent as `Retry-After` [C-59]. */
  retryAfter?: number
  cause?: unknown
}

/** The one error class of the product: a literal code from `ERRORS`, a message that names the field and the fix. */
export class BoxofficeError extends Error {
  override readonly name = 'BoxofficeError'
  readonly code: ErrorCode
  readonly details: Record<string, unknown> | undefined
  readonly retryAfter: number | undefined

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details
    this.retryAfter = options.retryAfter
  }

  get status(): number {
    return ERRORS[this.code].status
  }

  get closeCode(): number {
    const { close }: ErrorRow = ERRORS[this.code]
    return close ?? 1011
  }

  /** True exactly for 423, 429 and 503 [4-162]. */
  get retryable(): boolean {
    return isRetryable(this.status)
  }

  /** The wire body, with the other name under `aliases`. */
  envelope(requestId: string, naming: ErrorNaming = 'full'): ErrorEnvelope {
    const { mvp, alias }: ErrorRow = ERRORS[this.code]
    const code = naming === 'mvp' ? (mvp ?? this.code) : this.code
    const other = mvp === undefined ? alias : naming === 'mvp' ? this.code : mvp
    return {
      error: {
        code,
        message: this.message,
        retryable: this.retryable,
        request_id: requestId,
        ...(other === undefined ? {} : { aliases: [other] }),
        ...(this.details === undefined ? {} : { details: this.details }),
      },
      detail: this.message,
    }
  }
}

const isRetryable = (status: number): boolean => status === 423 || status === 429 || status === 503

const BY_ANY_NAME = new Map<string, ErrorCode>(
  (Object.entries(ERRORS) as [ErrorCode, ErrorRow][]).flatMap(([code, { mvp }]): [string, ErrorCode][] =>
    mvp === undefined
      ? [[code, code]]
      : [
          [code, code],
          [mvp, code],
        ],
  ),
)

/** Reads a code of either naming back to our own; unknown codes (a newer server) are undefined. */
export const errorCodeFrom = (name: string): ErrorCode | undefined => BY_ANY_NAME.get(name)

/**
 * Turns anything that was thrown into a `BoxofficeError`, once per edge. What is not ours becomes `INTERNAL` with nothing
 * of the original in the message; the original stays in `cause` for the log.
 */
export const fromUnknown = (thrown: unknown): BoxofficeError =>
  thrown instanceof BoxofficeError
    ? thrown
    : new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id', { cause: thrown })

/** One line that names the first bad field and what is wrong with it, from a zod error. */
export const describeIssues = (error: z.ZodError): string => {
  const issue = error.issues[0]
  if (issue === undefined) return 'request is not valid'
  const field = issue.path.length === 0 ? 'body' : issue.path.map(String).join('.')
  return `${field}: ${describeIssue(issue)}`
}

/** What zod says where a schema has no words of its own. */
const GENERIC = /^(Invalid |Too |Unrecognized )/

/** What is wrong with one value and what would be right, without its field. A schema's own words stay as they are. */
export const describeIssue = (issue: z.core.$ZodIssue): string => {
  if (!GENERIC.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      if (issue.message.endsWith('received undefined')) return `is required and must be ${withArticle(issue.expected)}`
      return `must be ${withArticle(issue.expected)}`
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return `must ${sizeOf(issue.origin)} at least ${issue.minimum}${unitOf(issue.origin)}`
    case 'too_big':
      return `must ${sizeOf(issue.origin)} at most ${issue.maximum}${unitOf(issue.origin)}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message
    case 'invalid_format':
      return issue.format === 'regex' ? `must match ${issue.pattern}` : `must be a valid ${issue.format}`
    case 'unrecognized_keys':
      return `has no field ${issue.keys.join(', ')}`
    default:
      return issue.message
  }
}

const withArticle = (type: string): string => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`)
const sizeOf = (origin: string): string => (unitOf(origin) === '' ? 'be' : 'have')
const unitOf = (origin: string): string => (origin === 'string' ? ' characters' : origin === 'array' || origin === 'set' ? ' items' : '')
