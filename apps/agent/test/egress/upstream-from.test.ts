import { afterEach, expect, test, vi } from 'vitest'
import { upstreamFrom } from '../../src/egress/proxy/upstream-from.ts'

afterEach(() => vi.unstubAllEnvs())

/** The proxy for `host` on port 443 with these variables alone, as text; and whether it was told of one that it cannot use. */
const proxyBy = (variables: Record<string, string>, setting?: Parameters<typeof upstreamFrom>[0]) => {
  for (const name of ['HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY']) for (const one of [name, name.toLowerCase()]) vi.stubEnv(one, variables[one])
  let isUnusable = false
  const upstream = upstreamFrom(setting, () => {
    isUnusable = true
  })
  return { of: (host: string, port = 443) => upstream?.({ host, port })?.href, isUnusable }
}

test('an environment without a proxy has none', () => {
  expect(proxyBy({}).of('a.example')).toBeUndefined()
  expect(proxyBy({ NO_PROXY: '*' }).of('a.example')).toBeUndefined()
})

test.each([
  [{ HTTPS_PROXY: 'http://user:p%40ss@proxy.example:3128' }, 'http://user:p%40ss@proxy.example:3128/'],
  [{ https_proxy: 'https://proxy.example', HTTPS_PROXY: 'http://other.example' }, 'https://proxy.example/'],
  [{ https_proxy: 'proxy.example:3128' }, 'http://proxy.example:3128/'],
  [{ ALL_PROXY: 'http://[2001:db8::1]:8080' }, 'http://[2001:db8::1]:8080/'],
])('%o is %s', (variables, url) => {
  expect(proxyBy(variables)).toMatchObject({ isUnusable: false })
  expect(proxyBy(variables).of('a.example')).toBe(url)
})

test('hosts of NO_PROXY are dialled by the agent', () => {
  const { of } = proxyBy({ HTTPS_PROXY: 'http://proxy.example:3128', NO_PROXY: 'one.example, .two.example,three.example:8443' })
  expect(['one.example', 'a.two.example', 'three.example'].map((host) => of(host) === undefined)).toEqual([true, true, false])
  expect(of('three.example', 8443)).toBeUndefined()
  expect(of('[2001:db8::2]')).toBe('http://proxy.example:3128/')
})

test.each(['socks5://proxy.example:1080', 'http://', 'http://a b'])('%s is told of, and is none', (HTTPS_PROXY) => {
  const { of, isUnusable } = proxyBy({ HTTPS_PROXY })
  expect({ isUnusable, proxy: of('a.example') }).toEqual({ isUnusable: true, proxy: undefined })
})

test('the setting comes before the environment', () => {
  const environment = { HTTPS_PROXY: 'http://other.example', NO_PROXY: 'a.example' }
  expect(proxyBy(environment, 'http://proxy.example:3128').of('a.example')).toBe('http://proxy.example:3128/')
  expect(proxyBy(environment, 'none').of('b.example')).toBeUndefined()
})
