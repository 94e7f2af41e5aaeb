import { expect, test } from 'vitest'
import { hostInUrl, localUrl, parseListenAddress } from '../src/addresses/listen-address.ts'

test.each([
  ['127.0.0.1:0', '127.0.0.1', 0],
  ['[::1]:7072', '::1', 7072],
  ['agent.example:443', 'agent.example', 443],
])('parseListenAddress(%j)', (address, host, port) => {
  expect(parseListenAddress(address)).toEqual({ host, port })
})

test.each([
  ['::1', '[::1]'],
  ['[::1]', '[::1]'],
  ['10.0.0.1', '10.0.0.1'],
])('hostInUrl(%j) is %j', (host, inUrl) => {
  expect(hostInUrl(host)).toBe(inUrl)
})

test.each([
  ['0.0.0.0', false, 'http://127.0.0.1:80'],
  ['::', true, 'https://127.0.0.1:80'],
  ['[::]', false, 'http://127.0.0.1:80'],
  ['::1', false, 'http://[::1]:80'],
  ['localhost', true, 'https://localhost:80'],
])('localUrl of %j', (host, secure, url) => {
  expect(localUrl({ host, port: 80 }, secure)).toBe(url)
})
