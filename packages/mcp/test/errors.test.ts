import { BoxofficeError, ERRORS, type ErrorCode } from '@boxoffice/protocol'
import { ProtocolError } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import { toProtocolError } from '../src/base/errors.ts'
import { JSON_RPC_CODES } from '../src/index.ts'

const INVALID_PARAMS = -32_602
const INTERNAL_ERROR = -32_603

test('[4-173] every code of the contract has its JSON-RPC code', () => {
  const expected: Record<ErrorCode, number> = {
    INVALID_REQUEST: INVALID_PARAMS,
    INVALID_PATH: INVALID_PARAMS,
    IS_DIRECTORY: INVALID_PARAMS,
    NOT_A_DIRECTORY: INVALID_PARAMS,
    NOT_A_FILE: INVALID_PARAMS,
    DIRECTORY_NOT_EMPTY: INVALID_PARAMS,
    UNAUTHENTICATED: -31401,
    TOKEN_EXPIRED: -31401,
    SESSION_RELEASED: -31401,
    FORBIDDEN: -31403,
    CAPABILITY_DENIED: -31403,
    PERMISSION_DENIED: -31403,
    READ_ONLY: -31403,
    BINDING_NOT_FOUND: -31404,
    NOT_FOUND: -31404,
    EXEC_NOT_FOUND: -31404,
    PROCESS_NOT_FOUND: -31404,
    FILE_NOT_FOUND: -31404,
    METHOD_NOT_ALLOWED: -31405,
    TIMEOUT: -31408,
    BINDING_CONFLICT: -31409,
    ALREADY_ATTACHED: -31409,
    TAKEN_OVER: -31409,
    EXEC_CONFLICT: -31409,
    PROCESS_CONFLICT: -31409,
    FILE_EXISTS: -31409,
    PROCESS_NOT_RUNNING: -31409,
    SESSION_EXPIRED: -31410,
    PRECONDITION_FAILED: -31412,
    PAYLOAD_TOO_LARGE: INVALID_PARAMS,
    UNSUPPORTED_MEDIA_TYPE: -31415,
    RANGE_NOT_SATISFIABLE: -31416,
    SANDBOX_STARTING: -31423,
    RATE_LIMITED: -31429,
    INTERNAL: INTERNAL_ERROR,
    UNSUPPORTED: -31501,
    PORT_NOT_LISTENING: -31502,
    CONNECTION_RESET: -31502,
    BACKEND_UNAVAILABLE: -31503,
    AGENT_FULL: -31503,
    SANDBOX_LOST: -31503,
    QUOTA_EXCEEDED: -31507,
  }
  expect(JSON_RPC_CODES).toEqual(expected)
})

test('no code of ours is one that JSON-RPC or MCP gives a meaning, but for the two of JSON-RPC that mean the same', () => {
  for (const [name, code] of Object.entries(JSON_RPC_CODES)) {
    if (code === INVALID_PARAMS || code === INTERNAL_ERROR) continue
    expect(code >= -32_768 && code <= -32_000, name).toBe(false)
  }
})

test.each(Object.keys(ERRORS) as ErrorCode[])('%s carries the envelope, its status and when to try again', (code) => {
  const error = toProtocolError(new BoxofficeError(code, 'field: why', { details: { a: 1 }, retryAfter: 2 }), () => {})
  expect(error).toMatchObject({
    code: JSON_RPC_CODES[code],
    message: 'field: why',
    data: {
      error: { code, message: 'field: why', retryable: [423, 429, 503].includes(ERRORS[code].status), details: { a: 1 } },
      detail: 'field: why',
      status: ERRORS[code].status,
      retry_after: 2,
    },
  })
})

test("an MCP server's own protocol error passes as it is", () => {
  const own = new ProtocolError(-31_999, 'log in first', { url: 'https://example.com' })
  expect(toProtocolError(own, () => {})).toBe(own)
})

test('a defect tells the caller nothing and the server everything', () => {
  const reported: Error[] = []
  const error = toProtocolError(new TypeError('secret of the house'), (defect) => reported.push(defect))
  expect(error.code).toBe(INTERNAL_ERROR)
  expect(JSON.stringify([error.message, error.data])).not.toContain('secret of the house')
  const { request_id } = (error.data as { error: { request_id: string } }).error
  expect(reported).toEqual([expect.objectContaining({ message: expect.stringContaining(request_id), cause: expect.any(TypeError) })])
})
