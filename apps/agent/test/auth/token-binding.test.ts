import { expect, test } from 'vitest'
import { createTokenBinding } from '../../src/auth/token-binding.ts'

test('[C-50] a token without a key is taken until 60 s after the last answer of a broker that names none', () => {
  let now = 0
  const binding = createTokenBinding('mine', () => now)
  const admitted = () => [binding.admits(undefined), binding.admits({ jkt: 'mine' }), binding.admits({ jkt: 'other' })]
  expect(admitted()).toEqual([true, true, false])
  binding.report(true)
  expect(admitted()).toEqual([false, true, false])
  binding.report(false)
  expect(admitted()).toEqual([true, true, false])
  binding.report(true)
  now = 59_999
  expect(admitted()).toEqual([true, true, false])
  now = 60_000
  expect(admitted()).toEqual([false, true, false])
})
