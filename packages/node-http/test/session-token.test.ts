import { expect, test } from 'vitest'
import { tokenOf } from '../src/index.ts'

test.each([
  [{}, undefined],
  [{ authorization: 'Bearer a.b.c' }, 'a.b.c'],
  [{ 'x-api-key': 'a.b.c' }, 'a.b.c'],
  [{ authorization: 'bearer a.b.c', 'x-api-key': 'a.b.c' }, 'a.b.c'],
  [{ authorization: 'Bearer a.b.c', 'x-api-key': 'bxo_key' }, 'a.b.c'],
])('[4-55, contract 7.4] the token of %j', (headers, token) => {
  expect(tokenOf(headers)).toBe(token)
})

test.each([
  [{ authorization: 'Basic eDp5' }, /Authorization must be "Bearer/],
  [{ authorization: 'Bearer bxo_key' }, /this is an API key; .* session token/],
  [{ 'x-api-key': 'bxo_key' }, /this is an API key; .* session token/],
])('[4-55] %j is 401 that says why', (headers, message) => {
  expect(() => tokenOf(headers)).toThrow(expect.objectContaining({ code: 'UNAUTHENTICATED', message: expect.stringMatching(message) }))
})
