import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { classifyAddress } from '../../src/egress/address/classify-address.ts'
import { parseAddress } from '../../src/egress/address/ip-address.ts'
import { hostText, parseHost } from '../../src/egress/address/parse-host.ts'
import { addressesOfHost, resolveHost } from '../../src/egress/address/resolve-host.ts'

const textOf = (text: string): string | undefined => {
  const host = parseHost(text)
  return host && hostText(host)
}

const classOf = (text: string): string | undefined => {
  const address = parseAddress(text)
  return address && classifyAddress(address)
}

describe('hosts have one spelling', () => {
  test.each([
    ['API.Example.com', 'api.example.com'],
    ['example.com.', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['ｅxample。com', 'example.com'],
    ['_srv.example.com', '_srv.example.com'],
    ['2130706433', '127.0.0.1'],
    ['0x7f.1', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['１２７.0.0.1', '127.0.0.1'],
    ['[::ffff:127.0.0.1]', '127.0.0.1'],
    ['[::ffff:7f00:1]', '127.0.0.1'],
    ['[64:ff9b::7f00:1]', '127.0.0.1'],
    ['::1', '[::1]'],
    ['[0:0:0:0:0:0:0:1]', '[::1]'],
    ['[2001:DB8::0:1]', '[2001:db8::1]'],
  ])('%s is %s', (text, spelling) => {
    expect(textOf(text)).toBe(spelling)
  })

  test.each([
    ...[
      '',
      'a b',
      'a%2eb',
      'user@host',
      'a/b',
      'a\\b',
      '[fe80::1%eth0]',
      'fe80::1%1',
      '[127.0.0.1]',
      '1.2.3.4.5',
      '256.1.1.1',
      'example.0x1',
    ],
    ...['a..b', '-a.example', '.', 'a\u0000b', '[::1', 'x'.repeat(64), `${'a.'.repeat(130)}b`, '[::ffff:999.0.0.1]'],
  ])('%j is no host', (text) => {
    expect(parseHost(text)).toBeUndefined()
  })

  test('the spelling of a host is its own spelling', () => {
    const hosts = fc.oneof(fc.domain(), fc.ipV4(), fc.ipV4Extended(), fc.ipV6(), fc.string())
    fc.assert(
      fc.property(hosts, (text) => {
        const once = textOf(text)
        expect(once === undefined ? undefined : textOf(once)).toBe(once)
      }),
    )
  })
})

describe('addresses are classified', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['2606:4700::1111', 'public'],
    ['10.1.2.3', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.0', 'public'],
    ['192.168.1.1', 'private'],
    ['fd12::1', 'private'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['::', 'unspecified'],
    ['169.254.1.1', 'link_local'],
    ['fe80::1', 'link_local'],
    ['febf::1', 'link_local'],
    ['169.254.169.254', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['224.0.0.1', 'multicast'],
    ['ff02::1', 'multicast'],
    ['100.64.0.1', 'shared'],
    ['100.127.255.255', 'shared'],
    ['100.128.0.0', 'public'],
    ['198.18.0.1', 'reserved'],
    ['198.20.0.0', 'public'],
    ['192.0.2.1', 'reserved'],
    ['203.0.113.1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['::ffff:169.254.169.254', 'metadata'],
    ['::127.0.0.1', 'reserved'],
    ['64:ff9b::a9fe:a9fe', 'metadata'],
    ['64:ff9b::808:808', 'public'],
    ['64:ff9b:1::7f00:1', 'reserved'],
    ['2002:7f00:1::', 'loopback'],
    ['2002:808:808::1', 'public'],
    ['2001:0:808:808::1', 'reserved'],
    ['fec0::1', 'reserved'],
    ['4000::1', 'reserved'],
  ])('%s is %s', (text, expected) => {
    expect(classOf(text)).toBe(expected)
  })

  test('an IPv4 address inside IPv6 is what it is outside', () => {
    fc.assert(
      fc.property(fc.ipV4(), (ipv4) => {
        const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number)
        const groups = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
        for (const inside of [`::ffff:${ipv4}`, `::ffff:${groups}`, `64:ff9b::${groups}`, `2002:${groups}::1`])
          expect(classOf(inside)).toBe(classOf(ipv4))
      }),
    )
  })

  test('every notation of an IPv4 address is that address', () => {
    fc.assert(
      fc.property(fc.ipV4Extended(), fc.ipV4(), (odd, plain) => {
        expect(classOf(textOf(odd) ?? '')).toBeDefined()
        const number = plain.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
        for (const notation of [`${number}`, `0x${number.toString(16)}`, `0${number.toString(8)}`]) expect(textOf(notation)).toBe(plain)
      }),
    )
  })

  test('all of 127.0.0.0/8, 10.0.0.0/8 and 169.254.0.0/16 is refused, wherever in it', () => {
    const byte = fc.integer({ min: 0, max: 255 })
    fc.assert(
      fc.property(fc.constantFrom('127', '10', '169.254'), byte, byte, byte, (prefix, b, c, d) => {
        const text = [prefix, b, c, d].join('.').split('.').slice(0, 4).join('.')
        expect(classOf(text)).not.toBe('public')
      }),
    )
  })
})

describe('a name is resolved', () => {
  const resolved = async (
    addresses: readonly string[],
    more: { privateAddresses?: boolean; anyAddress?: boolean; own?: string[] } = {},
  ) => {
    const { privateAddresses = false, anyAddress = false, own = [] } = more
    const options = { resolve: async () => addresses, privateAddresses, anyAddress, ownAddresses: () => new Set(own), timeoutMs: 60_000 }
    return (await resolveHost({ name: 'example.com' }, options)).map(({ text }) => text)
  }
  const refused = (addresses: readonly string[], more: object = {}) =>
    resolved(addresses, more).then(
      (texts) => texts,
      (error: { denial: { code: string } }) => error.denial.code,
    )

  test('to its public addresses, in order; the others are left out', async () => {
    expect(await resolved(['10.0.0.1', '8.8.8.8', '::1', '2606:4700::1', '::ffff:127.0.0.1'])).toEqual(['8.8.8.8', '2606:4700::1'])
  })

  test('to nothing where no address is public', async () => {
    expect(await refused(['10.0.0.1', 'fd00::1'])).toBe('private_address')
    expect(await refused([])).toBe('unresolvable')
    expect(await refused(['fe80::1%eth0'])).toBe('unresolvable')
  })

  test('to private addresses where the policy allows them, never to those of loopback, link and metadata', async () => {
    const addresses = ['10.0.0.1', '127.0.0.1', '169.254.169.254', 'fd00:ec2::254', 'fd00::1', '100.64.0.1']
    expect(await resolved(addresses, { privateAddresses: true })).toEqual(['10.0.0.1', 'fd00::1'])
  })

  test('never to an address of the host itself', async () => {
    expect(await refused(['8.8.4.4', '10.0.0.9'], { own: ['8.8.4.4', '10.0.0.9'], privateAddresses: true })).toBe('private_address')
    expect(addressesOfHost()).toContain('127.0.0.1')
  })

  test('to every address where it is an exception', async () => {
    expect(await resolved(['127.0.0.1'], { anyAddress: true, own: ['127.0.0.1'] })).toEqual(['127.0.0.1'])
  })
})
