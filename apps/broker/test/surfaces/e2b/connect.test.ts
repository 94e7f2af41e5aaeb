import { BoxofficeError } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { endEnvelope, messageEnvelope, parseJson, readEnvelope, statusOf, toConnectError } from '../../../src/surfaces/e2b/call/connect.ts'

test('an envelope is a flag, a length and JSON', () => {
  expect([...messageEnvelope({})]).toEqual([0, 0, 0, 0, 2, 0x7b, 0x7d])
  expect([...endEnvelope()]).toEqual([2, 0, 0, 0, 2, 0x7b, 0x7d])
  expect(readEnvelope(messageEnvelope({ text: 'grüße' }))).toEqual({ text: 'grüße' })
  expect(endEnvelope({ code: 'not_found', message: 'm' }).subarray(5).toString()).toBe('{"error":{"code":"not_found","message":"m"}}')
})

test.for([
  ['too short', Buffer.from([0, 0, 0])],
  ['compressed', Buffer.from([1, 0, 0, 0, 0])],
  ['an end', Buffer.from([2, 0, 0, 0, 0])],
  ['longer than the body', Buffer.from([0, 0, 0, 0, 9, 0x7b, 0x7d])],
  ['followed by another', Buffer.concat([messageEnvelope({}), messageEnvelope({})])],
  ['not JSON', Buffer.from([0, 0, 0, 0, 1, 0x7b])],
  ['not UTF-8', Buffer.from([0, 0, 0, 0, 3, 0x22, 0xff, 0x22])],
] as const)('an envelope that is %s is refused', ([, bytes]) => {
  expect(() => readEnvelope(bytes)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }))
})

test('an empty message is one without fields', () => {
  expect(parseJson(new Uint8Array())).toEqual({})
})

test.for([
  ['FILE_NOT_FOUND', 'not_found', 404],
  ['PROCESS_NOT_RUNNING', 'not_found', 404],
  ['FILE_EXISTS', 'already_exists', 409],
  ['INVALID_PATH', 'invalid_argument', 400],
  ['UNAUTHENTICATED', 'unauthenticated', 401],
  ['RATE_LIMITED', 'resource_exhausted', 429],
  ['UNSUPPORTED', 'unimplemented', 501],
  ['SESSION_EXPIRED', 'unavailable', 502],
  ['SANDBOX_LOST', 'unavailable', 502],
  ['BACKEND_UNAVAILABLE', 'unavailable', 502],
] as const)('%s is %s, status %i', ([code, wanted, status]) => {
  const error = toConnectError(new BoxofficeError(code, 'why'))
  expect(error).toEqual({ code: wanted, message: 'why' })
  expect(statusOf(error)).toBe(status)
})
