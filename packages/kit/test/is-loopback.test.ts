import { describe, expect, test } from 'vitest'
import { isLoopback } from '../src/addresses/is-loopback.ts'

describe('isLoopback', () => {
  test.each([
    'localhost',
    'LocalHost',
    '127.0.0.1',
    '127.0.0.0',
    '127.255.255.254',
    '::1',
    '[::1]',
    '0:0:0:0:0:0:0:1',
    '::ffff:127.0.0.1',
    '::FFFF:127.1.2.3',
    '::ffff:7f00:1',
    '[::ffff:7fff:fffe]',
    new URL('http://[::ffff:127.0.0.1]:7070').hostname,
    new URL('http://2130706433').hostname,
  ])('is true for %s', (host) => expect(isLoopback(host)).toBe(true))

  test.each([
    '',
    '0.0.0.0',
    '::',
    '[]',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0',
    '127.0.0.256',
    '127.0.0.01',
    '127.0.0.1.example.com',
    '127.evil.example.com',
    'localhost.example.com',
    'not-localhost',
    '[localhost]',
    '[127.0.0.1]',
    '::2',
    '::1%lo',
    '::127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:127.0.0.256',
    '::ffff:7e00:1',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '[::1]@evil.example',
    '::1]/[',
    '127.0.0.1\n',
    'localhost\n',
  ])('is false for %j', (host) => expect(isLoopback(host)).toBe(false))
})
