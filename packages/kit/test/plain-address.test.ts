import { expect, test } from 'vitest'
import { plainAddress } from '../src/addresses/plain-address.ts'

test.each([
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['10.0.0.1', '10.0.0.1'],
  ['::1', '::1'],
  ['::ffff:0:1', '::ffff:0:1'],
  ['unknown', 'unknown'],
])('plainAddress(%j) is %j', (address, plain) => {
  expect(plainAddress(address)).toBe(plain)
})
