import { afterEach, expect, test, vi } from 'vitest'
import { toBase64 } from '../src/base/base64.ts'
import { pattern } from './fixture/server-test.ts'

afterEach(() => vi.unstubAllGlobals())

// Part of a larger memory, as what is cut from a buffer is.
const bytes = pattern(100_003).subarray(2)
const expected = Buffer.from(bytes).toString('base64')

test('bytes become base64 by what the runtime has', () => {
  const native = Object.assign(bytes.slice(), { toBase64: () => 'the runtime' })
  expect([toBase64(native), toBase64(bytes)]).toEqual(['the runtime', expected])
  vi.stubGlobal('Buffer', undefined)
  const older = Object.assign(bytes.slice(), { toBase64: undefined })
  const without = toBase64(older)
  vi.unstubAllGlobals()
  expect(without).toBe(expected)
})
