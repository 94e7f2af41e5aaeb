import { expect, test } from 'vitest'
import { makePlaceholder, type ResolvedPlaceholder, swapPlaceholders } from '../../../src/egress/secrets/placeholder.ts'

const made = (value: string | undefined, hosts = ['api.github.com'], length = value?.length ?? 40): ResolvedPlaceholder => ({
  ...makePlaceholder('gh_token', hosts, length),
  value,
})
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

test('a placeholder is as long as the value, but never so short that it stands somewhere by chance, and each is another one', () => {
  const lengths = [0, 1, 15, 16, 40, 93, 4096, 65_536].map((length) => makePlaceholder('s', [], length).sentinel.length)
  expect(lengths).toEqual([16, 16, 16, 16, 40, 93, 4096, 4096])
  const all = Array.from({ length: 1000 }, () => makePlaceholder('s', [], 16).sentinel)
  expect(new Set(all).size).toBe(1000)
  expect(all.every((sentinel) => /^[A-Za-z0-9]{16}$/.test(sentinel))).toBe(true)
})

test('the value stands in place of its sentinel in every header value, as often as it is there, and nothing else changes', () => {
  const token = made('ghp_$&$1real')
  const { sentinel } = token
  const headers = ['Authorization', `Bearer ${sentinel}`, 'X-Twice', `${sentinel},${sentinel}`, sentinel, 'name', 'Accept', '*/*']
  const swapped = ['Authorization', 'Bearer ghp_$&$1real', 'X-Twice', 'ghp_$&$1real,ghp_$&$1real', sentinel, 'name', 'Accept', '*/*']
  const before = [...headers]
  expect(swapPlaceholders(headers, [token], 'api.github.com')).toEqual(swapped)
  expect(headers).toEqual(before)
})

test('the credentials of Basic have the value, whatever bytes are around it', () => {
  const token = made('päss\n:wörd')
  const { sentinel } = token
  const swap = (value: string) => swapPlaceholders(['authorization', value], [token], 'api.github.com')[1]
  expect(swap(basic(`user:${sentinel}`))).toBe(basic('user:päss\n:wörd'))
  expect(swap(basic(`${sentinel}:`))).toBe(basic('päss\n:wörd:'))
  expect(swap(basic(`${sentinel}:`).replace('Basic', 'bAsIc '))).toBe(basic('päss\n:wörd:').replace('Basic', 'bAsIc '))
  const bytes = Buffer.concat([Buffer.from([0xff, 0x00, 0xfe]), Buffer.from(sentinel)])
  expect(swap(`Basic ${bytes.toString('base64')}`)).toBe(
    `Basic ${Buffer.concat([Buffer.from([0xff, 0x00, 0xfe]), Buffer.from('päss\n:wörd')]).toString('base64')}`,
  )
  // What has no sentinel keeps its spelling, also where another one would be the same credentials.
  for (const other of ['Basic dXNlcjpwYXNz', 'Basic dXNlcjpwYXN', 'Basic ', 'Basic =', 'Basicly']) expect(swap(other)).toBe(other)
})

test.each([
  [['api.github.com'], 'api.github.com', true],
  [['API.GitHub.com'], 'api.github.COM.', true],
  [['api.github.com'], 'github.com', false],
  [['api.github.com'], 'api.github.com.evil.example', false],
  [['api.github.com'], 'xapi.github.com', false],
  [['*.github.com'], 'api.github.com', true],
  [['*.github.com'], 'a.b.github.com', true],
  [['*.github.com'], 'github.com', false],
  [['*.github.com'], '.github.com', false],
  [['*.github.com'], 'evilgithub.com', false],
  [['one.example', 'two.example'], 'two.example', true],
  [[], 'api.github.com', false],
])('a placeholder for %j has its value at %s: %s', (hosts, host, swapped) => {
  const token = made('value-of-a-secret', hosts)
  const [, value] = swapPlaceholders(['x', token.sentinel], [token], host)
  expect(value).toBe(swapped ? 'value-of-a-secret' : token.sentinel)
})

test('a sentinel stays where its secret is not there, or its value would end the header', () => {
  for (const value of [undefined, 'a\r\nX-Injected: 1', 'a\nb', 'nul\0', 'ä']) {
    const token = made(value)
    expect(swapPlaceholders(['x', token.sentinel], [token], 'api.github.com')).toEqual(['x', token.sentinel])
  }
})

test('of several placeholders each has its own value, and a value that names another sentinel is left alone', () => {
  const second = made('second-value')
  const first = made(`first ${second.sentinel}`)
  const elsewhere = made('elsewhere', ['other.example'])
  const text = `${first.sentinel} ${second.sentinel} ${elsewhere.sentinel}`
  expect(swapPlaceholders(['x', text], [first, second, elsewhere], 'api.github.com')[1]).toBe(
    `first ${second.sentinel} second-value ${elsewhere.sentinel}`,
  )
})
