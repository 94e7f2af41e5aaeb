import { describe, expect, test } from 'vitest'
import { EgressInjection, EgressLists, EgressPolicy, EgressRule, EgressTarget, withoutLists } from '../src/index.ts'

test('a policy of which nothing is said allows nothing', () => {
  expect(EgressPolicy.parse({})).toEqual({
    ...{ allow: [], deny: [], rules: [], placeholders: [], tls: { terminate: 'rules', bypass: [] }, private_addresses: false },
  })
})

test.each([
  ...[
    'api.example.com',
    '*.example.com',
    '*',
    '*:8080',
    '192.0.2.7',
    '[2001:db8::1]:443',
    'api.example.com:8443',
    '@packages',
    'a_b.example',
  ],
])('%s is a target', (text) => {
  expect(EgressTarget.parse(text)).toBe(text)
})

test('targets are lower case', () => {
  expect(EgressTarget.parse('API.Example.COM')).toBe('api.example.com')
})

test.each([
  ...['', 'https://example.com', 'example.com/path', 'a.*.example', '*x.example', 'example.com:0', 'example.com:65536', 'a b', 'user@host'],
  ...['example..com', '@', '[fe80::1%eth0]', '2001:db8::1', '-x.example', 'example.com:', '999.1.1.1'],
])('%j is no target', (text) => {
  expect(EgressTarget.safeParse(text).success).toBe(false)
})

describe('an injected header', () => {
  const injection = (more: object) => ({ header: 'Authorization', secret: 'gh_token', ...more })

  test('has the secret alone as its value unless a template says otherwise', () => {
    expect(EgressInjection.parse(injection({}))).toEqual({ header: 'authorization', secret: 'gh_token', template: '{{secret}}' })
  })

  test.each(['Bearer', 'Bearer {{secret}}\r\nx: y', '{{ secret }}'])('is not made from %j', (template) => {
    expect(EgressInjection.safeParse(injection({ template })).success).toBe(false)
  })

  test.each([
    ...['Host', 'Content-Length', 'Transfer-Encoding', 'Connection', 'Keep-Alive', 'TE', 'Trailer', 'Upgrade', 'Expect'],
    ...['Proxy-Authorization', 'x y', ''],
  ])('is never %s, which says where a request goes or ends', (header) => {
    expect(EgressInjection.safeParse(injection({ header })).success).toBe(false)
  })
})

test('a rule names methods in capitals and paths from the root', () => {
  const rule = { host: 'api.example.com', methods: ['GET'], paths: ['/repos/**'] }
  expect(EgressRule.parse(rule)).toEqual({ ...rule, inject: [] })
  expect(EgressRule.safeParse({ ...rule, methods: ['get'] }).success).toBe(false)
  expect(EgressRule.safeParse({ ...rule, paths: ['repos'] }).success).toBe(false)
})

test('a policy with a misspelt key is refused', () => {
  for (const policy of [{ deni: ['x.example'] }, { rules: [{ host: 'x.example', method: ['GET'] }] }, { tls: { open: 'all' } }])
    expect(EgressPolicy.safeParse(policy).success).toBe(false)
})

test('lists give their hosts to all parts of a policy, and a rule to each', () => {
  const policy = EgressPolicy.parse({
    ...{ allow: ['@a', 'x.example', 'a.example'], deny: ['@b'], rules: [{ host: '@a', methods: ['GET'] }], tls: { bypass: ['@b'] } },
  })
  const missing: string[] = []
  const lists = { a: ['a.example', '*.a.example:8443'] }
  const resolved = withoutLists(policy, lists, (name) => {
    missing.push(name)
    return ['instead.example']
  })
  expect(resolved).toEqual({
    ...policy,
    allow: ['a.example', '*.a.example:8443', 'x.example'],
    deny: ['instead.example'],
    rules: [
      { host: 'a.example', methods: ['GET'], inject: [] },
      { host: '*.a.example:8443', methods: ['GET'], inject: [] },
    ],
    tls: { terminate: 'rules', bypass: ['instead.example'] },
  })
  expect(missing).toEqual(['b', 'b'])
  expect(withoutLists(resolved, {}, () => expect.fail('it names no list'))).toBe(resolved)
})

test('a list holds no lists', () => {
  expect(EgressLists.safeParse({ a: ['a.example'] }).success).toBe(true)
  expect(EgressLists.safeParse({ a: ['@b'] }).success).toBe(false)
})
