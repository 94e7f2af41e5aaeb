import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BrokerConfig, resolveConfig } from '../../src/config/config.ts'
import { outboundCall } from '../../src/outbound/call.ts'
import { permits } from '../../src/outbound/targets.ts'
import { startServer } from '../support/server.ts'

describe('[C-60] which addresses the broker dials', () => {
  const addresses: [address: string, public_: boolean, loopback: boolean][] = [
    ['8.8.8.8', true, true],
    ['172.15.255.255', true, true],
    ['172.32.0.1', true, true],
    ['2606:4700::1111', true, true],
    ['127.0.0.1', false, true],
    ['127.255.255.254', false, true],
    ['::1', false, true],
    ['::ffff:127.0.0.1', false, true],
    ['0.0.0.0', false, false],
    ['10.1.2.3', false, false],
    ['100.64.0.1', false, false],
    ['169.254.169.254', false, false],
    ['172.16.0.1', false, false],
    ['172.31.255.255', false, false],
    ['192.168.1.1', false, false],
    ['198.18.0.1', false, false],
    ['224.0.0.1', false, false],
    ['255.255.255.255', false, false],
    ['::', false, false],
    ['::ffff:10.0.0.1', false, false],
    ['::ffff:a9fe:a9fe', false, false],
    ['::10.0.0.1', false, false],
    ['64:ff9b::a00:1', false, false],
    ['2002:a00:1::', false, false],
    ['fc00::1', false, false],
    ['fd12:3456::1', false, false],
    ['fe80::1', false, false],
    ['ff02::1', false, false],
    ['fec0::1', false, false],
    ['fe80::1%lo', false, false],
    ['100::1', false, false],
    // The documentation's networks, the anycast relay of 6to4, Teredo, SIIT, translation by a local prefix.
    ['192.0.2.1', false, false],
    ['198.51.100.1', false, false],
    ['203.0.113.1', false, false],
    ['192.88.99.1', false, false],
    ['192.0.0.8', false, false],
    ['2001:db8::1', false, false],
    ['2001::1', false, false],
    ['2001:0:4136:e378:8000:63bf:3fff:fdd2', false, false],
    ['::ffff:0:10.0.0.1', false, false],
    ['64:ff9b:1::a00:1', false, false],
    ['not-an-address', false, false],
  ]
  test.each(addresses)('%s: public %s, loopback %s', (address, isPublic, isLoopback) => {
    expect([permits('public', address), permits('loopback', address)]).toEqual([isPublic, isLoopback])
    expect(permits('any', address)).toBe(address !== 'not-an-address')
  })
})

describe('[C-60] a call', () => {
  let server: Awaited<ReturnType<typeof startServer>>
  beforeAll(async () => {
    server = await startServer(({ path }, response) => {
      if (path === '/away') return void response.writeHead(307, { location: '/' }).end()
      if (path === '/flood') return flood(response)
      response.end('here')
    })
  })
  afterAll(() => server.close())
  const flood = (response: import('node:http').ServerResponse): void => {
    const chunk = Buffer.alloc(1024 * 1024)
    const more = (): void => {
      while (!response.destroyed && response.write(chunk)) if (response.writableEnded) return
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  }
  const get = (url: string, policy: 'public' | 'loopback' | 'any') =>
    outboundCall(policy, 5000)({ method: 'GET', url: new URL(url), headers: {} })
  const named = () => server.url.replace('127.0.0.1', 'localhost')

  test('goes where the policy permits, by address and by name', async () => {
    for (const policy of ['loopback', 'any'] as const)
      for (const url of [server.url, named()]) expect(await get(url, policy)).toEqual({ status: 200, text: 'here' })
  })

  test('does not go where a name leads to what is not permitted; the connection is never made', async () => {
    const before = server.received.length
    for (const url of [server.url, named(), server.url.replace('127.0.0.1', '2130706433'), server.url.replace('127.0.0.1', '0x7f.1')])
      await expect(get(url, 'public')).rejects.toThrow(/not public; --allow-private-urls/)
    expect(server.received).toHaveLength(before)
  })

  test('gives a redirect as it is', async () => {
    expect((await get(`${server.url}/away`, 'loopback')).status).toBe(307)
    expect(server.received.at(-1)?.path).toBe('/away')
  })

  test('ends when the answer has no end', async () => {
    await expect(get(`${server.url}/flood`, 'loopback')).rejects.toThrow(/more than 16777216 bytes/)
  })
})

describe('settings that cannot work are refused at the start, by their names', () => {
  const SECRET = 'Vb7nQx2LmT5zKc8RpW1sYd4HgJ6fAe9U'
  const open: Partial<BrokerConfig> = { host: '0.0.0.0', apiKey: 'Zx3vPq8rT1mN5kW9yB2cD7fG4hJ6sL0a' }
  const webhook = { authorizer: 'webhook', authorizerSecret: SECRET } as const
  const oidc = { oidcIssuer: 'https://id.example', oidcJwksUrl: 'https://id.example/jwks', oidcAudience: ['boxoffice'] }
  const wrong: [name: string, config: Partial<BrokerConfig>, message: RegExp][] = [
    ['langgraph without a URL', { authorizer: 'langgraph' }, /authorizerUrl \(--authorizer-url\) is required with authorizer "langgraph"/],
    ['a webhook without a secret', { authorizer: 'webhook', authorizerUrl: 'https://a.example' }, /authorizerSecret/],
    ['a short secret', { ...webhook, authorizerUrl: 'https://a.example', authorizerSecret: 'short' }, /authorizerSecret.*32 characters/],
    ['no URL', { ...webhook, authorizerUrl: 'a.example' }, /authorizerUrl .*http/],
    ['a URL with a password', { ...webhook, authorizerUrl: 'https://u:p@a.example' }, /user name or password/],
    ['a file', { ...webhook, authorizerUrl: 'file:///etc/passwd' }, /authorizerUrl/],
    ['plain http elsewhere', { ...webhook, authorizerUrl: 'http://a.example' }, /must be https/],
    ['a private address', { ...webhook, authorizerUrl: 'https://10.0.0.1' }, /10\.0\.0\.1, which is not public; set allowPrivateUrls/],
    ['a metadata service', { ...oidc, oidcJwksUrl: 'http://169.254.169.254/jwks' }, /oidcJwksUrl .*not public/],
    ['loopback behind an open listener', { ...open, ...webhook, authorizerUrl: 'http://127.0.0.1:9' }, /127\.0\.0\.1, which is not public/],
    ['loopback in another spelling', { ...open, ...webhook, authorizerUrl: 'http://[::ffff:127.0.0.1]:9' }, /not public/],
    ['an issuer alone', { oidcIssuer: 'https://id.example' }, /oidcJwksUrl \(--oidc-jwks-url\) is required with oidcIssuer/],
    ['no audience', { ...oidc, oidcAudience: undefined }, /oidcAudience/],
    ['a symmetric algorithm', { ...oidc, oidcAlgorithms: ['HS256' as 'RS256'] }, /oidcAlgorithms/],
    ['the broker itself', { ...oidc, publicUrl: 'https://id.example' }, /this broker itself/],
    ['more than 3 s for an answer', { authorizerTimeoutMs: 3001 }, /authorizerTimeoutMs/],
    ['a cache of an hour', { authorizerCache: 3600 }, /authorizerCache/],
  ]
  test.each(wrong)('%s', (_, config, message) => {
    expect(() => resolveConfig({ dataDir: '/nowhere', ...config } as BrokerConfig)).toThrow(message)
  })

  test('[C-01] a remote authorizer has 3 s, and its answers last a minute, unless they are to be less', () => {
    expect(resolveConfig({ dataDir: '/nowhere' })).toMatchObject({ authorizer: 'claim', authorizerTimeoutMs: 3000, authorizerCache: 60 })
  })

  test.each([
    ['loopback for a broker on loopback', { ...webhook, authorizerUrl: 'http://127.0.0.1:9/x' }],
    ['a private one that is meant', { ...open, ...webhook, authorizerUrl: 'http://10.0.0.1/x', allowPrivateUrls: true }],
    ['https elsewhere', { ...open, ...webhook, ...oidc, authorizerUrl: 'https://a.example/x' }],
  ])('%s is fine', (_, config) => {
    expect(resolveConfig({ dataDir: '/nowhere', ...config } as BrokerConfig)).toMatchObject({ authorizer: 'webhook' })
  })
})
