import { expect, test } from 'vitest'
import { httpBase } from '../src/addresses/http-base.ts'
import { withoutSlash } from '../src/addresses/without-slash.ts'

test.each([
  ['http://127.0.0.1:7070', 'http://127.0.0.1:7070'],
  ['https://Example.com:443/', 'https://example.com'],
  ['https://example.com/base//?query#fragment', 'https://example.com/base'],
  ['localhost:7070', undefined],
  ['ftp://example.com', undefined],
  ['example.com', undefined],
])('httpBase(%j) is %j', (url, base) => {
  expect(httpBase(url)).toBe(base)
})

test.each([
  ['', ''],
  ['/', ''],
  ['a//', 'a'],
  ['a/b', 'a/b'],
])('withoutSlash(%j) is %j', (url, without) => {
  expect(withoutSlash(url)).toBe(without)
})
