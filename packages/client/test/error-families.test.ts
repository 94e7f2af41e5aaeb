import { ERRORS } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { BoxofficeError, ConnectionError, GapError, isFamily } from '../src/index.ts'

const familyOf = (code: string, status?: number) => new BoxofficeError(code, 'for the test', { status }).family

test('each code has one family, under both of its names', () => {
  expect(familyOf('BINDING_NOT_FOUND')).toBe('not_found')
  expect(familyOf('SESSION_NOT_FOUND')).toBe('not_found')
  expect(familyOf('SESSION_CONFLICT')).toBe('conflict')
  expect(familyOf('PROVIDER_UNAVAILABLE')).toBe('unavailable')
  // 401 and 503 of what is over for good, which the status does not show.
  expect([familyOf('SESSION_RELEASED', 401), familyOf('SANDBOX_LOST', 503)]).toEqual(['ended', 'ended'])
  for (const [code, { status }] of Object.entries(ERRORS)) if (status < 500) expect([code, familyOf(code, status)]).not.toContain('server')
})

test('a code of a newer server has the family of its status', () => {
  const statuses = [400, 401, 403, 404, 409, 410, 418, 423, 429, 500, 501, 502, 503, 507, undefined]
  expect(statuses.map((status) => familyOf('A_NEW_THING', status))).toEqual([
    ...['input', 'credentials', 'denied', 'not_found', 'conflict', 'ended', 'input', 'unavailable', 'limit', 'server'],
    ...['unsupported', 'server', 'unavailable', 'limit', 'server'],
  ])
  expect(familyOf('constructor', 404)).toBe('not_found')
})

test('a guard knows errors of the SDK only', () => {
  expect(isFamily(new ConnectionError('away'), 'connection')).toBe(true)
  expect(isFamily(new GapError('stdout', 1, 2), 'conflict')).toBe(true)
  expect(isFamily(new BoxofficeError('FILE_NOT_FOUND', 'no'), 'conflict')).toBe(false)
  expect(isFamily({ family: 'connection' }, 'connection')).toBe(false)
})
