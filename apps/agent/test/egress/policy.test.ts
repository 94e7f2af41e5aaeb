import { EgressPolicy } from '@boxoffice/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Host, parseHost } from '../../src/egress/address/parse-host.ts'
import { compilePolicy, type EgressException, type EgressVerdict } from '../../src/egress/policy/egress-rules.ts'
import { compilePathGlob } from '../../src/egress/policy/path-glob.ts'

type Input = Parameters<typeof EgressPolicy.parse>[0]
type More = { secrets?: Record<string, string>; exceptions?: EgressException[]; mirrors?: EgressException[] }

const hostOf = (text: string): Host => parseHost(text) ?? expect.fail(`${text} is no host`)

const rulesOf = (policy: Input, { secrets = {}, exceptions, mirrors }: More = {}) =>
  compilePolicy(EgressPolicy.parse(policy), { exceptions, mirrors, sentinelOf: (env) => `for-${env}`, secrets: (name) => secrets[name] })

const decided = (policy: Input, host: string, port: number, scheme: 'http' | 'tls' = 'tls', more: More = {}): EgressVerdict =>
  rulesOf(policy, more).decide(hostOf(host), port, scheme)

/** `opaque`, `opened`, or the code of the denial. */
const outcome = (...[policy, host, port, scheme, more]: Parameters<typeof decided>): string => {
  const verdict = decided(policy, host, port, scheme, more)
  return verdict.kind === 'denied' ? verdict.denial.code : verdict.kind
}

describe('what is allowed', () => {
  test.each([
    ['api.example.com', 'api.example.com', 443, 'opaque'],
    ['api.example.com', 'API.example.com.', 443, 'opaque'],
    ['api.example.com', 'api.example.com', 80, 'port_refused'],
    ['api.example.com', 'x.api.example.com', 443, 'not_allowed'],
    ['api.example.com', 'notapi.example.com', 443, 'not_allowed'],
    ['*.example.com', 'a.example.com', 443, 'opaque'],
    ['*.example.com', 'a.b.example.com', 443, 'opaque'],
    ['*.example.com', 'example.com', 443, 'not_allowed'],
    ['*.example.com', 'badexample.com', 443, 'not_allowed'],
    ['*.example.com:8443', 'a.example.com', 8443, 'opaque'],
    ['*.example.com:8443', 'a.example.com', 443, 'port_refused'],
    ['*', 'anything.example', 443, 'opaque'],
    ['*', 'anything.example', 80, 'opaque'],
    ['*', 'anything.example', 22, 'port_refused'],
    ['*', '8.8.8.8', 443, 'not_allowed'],
    ['8.8.8.8', '8.8.8.8', 443, 'opaque'],
    ['8.8.8.8', '134744072', 443, 'opaque'],
    ['8.8.8.8', '[::ffff:8.8.8.8]', 443, 'opaque'],
    ['134744072', '8.8.8.8', 443, 'opaque'],
    ['[2606:4700::1]:853', '[2606:4700:0::1]', 853, 'opaque'],
    ['xn--bcher-kva.example', 'bücher.example', 443, 'opaque'],
  ] as const)('by %s: %s:%i is %s', (target, host, port, expected) => {
    expect(outcome({ allow: [target] }, host, port)).toBe(expected)
  })

  test('of requests without TLS only by a target with the port, or *', () => {
    expect(outcome({ allow: ['a.example'] }, 'a.example', 80, 'http')).toBe('port_refused')
    expect(outcome({ allow: ['a.example:80'] }, 'a.example', 80, 'http')).toBe('opened')
    expect(outcome({ allow: ['*'] }, 'a.example', 80, 'http')).toBe('opened')
    expect(outcome({ allow: ['*'] }, 'a.example', 443, 'http')).toBe('port_refused')
  })

  test('without TLS in a tunnel only on another port than 443 that is named', () => {
    const plain = (target: string, port: number) => {
      const verdict = decided({ allow: [target] }, 'a.example', port)
      return verdict.kind !== 'denied' && verdict.isPlainAllowed
    }
    expect(plain('a.example:22', 22)).toBe(true)
    expect(plain('a.example', 443)).toBe(false)
    expect(plain('a.example:443', 443)).toBe(false)
    expect(plain('*', 80)).toBe(false)
  })

  test('by mirrors of the host: an exact host and port at any address, where the policy names it or every name', () => {
    const more = { mirrors: [{ host: 'mirror.internal', port: 8081 }] }
    const found = (policy: Input, host: string, port: number) => {
      const verdict = decided(policy, host, port, 'http', more)
      return verdict.kind === 'denied' ? verdict.denial.code : verdict.anyAddress
    }
    expect(found({ allow: ['*'] }, 'mirror.internal', 8081)).toBe(true)
    expect(found({ allow: ['mirror.internal:8081'] }, 'mirror.internal', 8081)).toBe(true)
    expect(found({ allow: ['mirror.internal:80'] }, 'mirror.internal', 80)).toBe(false)
    expect(found({ allow: ['other.example'] }, 'mirror.internal', 8081)).toBe('not_allowed')
    expect(found({ allow: ['*'], deny: ['mirror.internal'] }, 'mirror.internal', 8081)).toBe('denied')
  })

  test('by the agent: an exact host and port at any address, unless the policy denies it', () => {
    const exceptions = [
      { host: 'mirror.internal', port: 8081 },
      { host: 'fd00::5', port: 443 },
    ]
    const more = { exceptions }
    expect(decided({}, 'mirror.internal', 8081, 'http', more)).toMatchObject({ kind: 'opened', anyAddress: true })
    expect(decided({}, '[fd00::5]', 443, 'tls', more)).toMatchObject({ kind: 'opaque', anyAddress: true })
    expect(outcome({}, 'mirror.internal', 443, 'tls', more)).toBe('port_refused')
    expect(decided({ allow: ['mirror.internal'] }, 'mirror.internal', 443, 'tls', more)).toMatchObject({ anyAddress: false })
    expect(outcome({ deny: ['mirror.internal'] }, 'mirror.internal', 8081, 'http', more)).toBe('denied')
  })
})

test('deny wins over allow and rules, on every port unless it names one', () => {
  const policy = { allow: ['*.example', '*.example:22'], rules: [{ host: 'a.example' }] }
  expect(outcome({ ...policy, deny: ['a.example'] }, 'a.example', 443)).toBe('denied')
  expect(outcome({ ...policy, deny: ['a.example'] }, 'a.example', 22)).toBe('denied')
  expect(outcome({ ...policy, deny: ['*.example:22'] }, 'a.example', 443)).toBe('opened')
  expect(outcome({ ...policy, deny: ['*.example:22'] }, 'b.example', 22)).toBe('denied')
})

describe('a host with rules', () => {
  const rules = [
    { host: 'api.example', methods: ['GET', 'HEAD'], paths: ['/repos/acme/**'], description: 'acme alone' },
    {
      host: 'api.example',
      methods: ['POST'],
      paths: ['/graphql'],
      inject: [{ header: 'Authorization', secret: 'key', template: 'Bearer {{secret}}' }],
    },
  ]
  const asked = (method: string, path: string, secrets: Record<string, string> = { key: 's3cret' }, allow: string[] = []) => {
    const verdict = decided({ rules, allow }, 'api.example', 443, 'tls', { secrets })
    if (verdict.kind === 'denied') return verdict.denial.code
    const answer = verdict.gate({ method, path })
    return answer.allowed ? answer.headers : answer.denial.code
  }

  test('[E2B#1286] is granted by them alone, and opened', () => {
    expect(outcome({ rules }, 'api.example', 443)).toBe('opened')
  })

  test('takes the requests that one of them describes', () => {
    expect(asked('GET', '/repos/acme/x/y')).toEqual([])
    expect(asked('GET', '/repos/acme/x?query=1')).toEqual([])
    expect(asked('DELETE', '/repos/acme/x')).toBe('method_not_allowed')
    expect(asked('GET', '/repos/other')).toBe('path_not_allowed')
    expect(asked('GET', '/graphql?x=/repos/acme/')).toBe('method_not_allowed')
  })

  test('is held to them where it is allowed otherwise as well', () => {
    expect(asked('GET', '/repos/other', {}, ['*', 'api.example'])).toBe('path_not_allowed')
  })

  test('gets secrets in headers; a missing one, or one that would break the head, is a denial', () => {
    expect(asked('POST', '/graphql')).toEqual([['authorization', 'Bearer s3cret']])
    expect(asked('POST', '/graphql', { key: "$&$'" })).toEqual([['authorization', "Bearer $&$'"]])
    for (const key of ['a\r\nx: y', 'a\nb', 'a\u0000', 'a€']) expect(asked('POST', '/graphql', { key })).toBe('secret_missing')
    expect(asked('POST', '/graphql', {})).toBe('secret_missing')
  })

  test('says which rule and what would be allowed', () => {
    const verdict = decided({ rules }, 'api.example', 443)
    if (verdict.kind === 'denied') return expect.fail('denied')
    expect(verdict.gate({ method: 'PUT', path: '/repos/acme/x' })).toEqual({
      allowed: false,
      denial: { code: 'method_not_allowed', host: 'api.example', rule: 'acme alone', hint: 'PUT is not allowed here, only GET, HEAD' },
    })
  })

  test('is not reached unopened where its rules limit requests', () => {
    expect(outcome({ rules, tls: { terminate: 'none' } }, 'api.example', 443)).toBe('not_allowed')
    expect(outcome({ rules, tls: { bypass: ['api.example'] } }, 'api.example', 443)).toBe('not_allowed')
    expect(outcome({ rules: [{ host: 'api.example' }], tls: { bypass: ['api.example'] } }, 'api.example', 443)).toBe('opaque')
  })
})

test('TLS is opened of hosts with rules, of all, or of none', () => {
  const policy = { allow: ['a.example'], rules: [{ host: 'b.example' }] }
  const outcomes = (tls: { terminate?: 'rules' | 'all' | 'none'; bypass?: string[] }) =>
    ['a.example', 'b.example'].map((host) => outcome({ ...policy, tls }, host, 443))
  expect(outcomes({})).toEqual(['opaque', 'opened'])
  expect(outcomes({ terminate: 'all' })).toEqual(['opened', 'opened'])
  expect(outcomes({ terminate: 'all', bypass: ['a.example'] })).toEqual(['opaque', 'opened'])
  expect(outcomes({ terminate: 'none' })).toEqual(['opaque', 'opaque'])
})

describe('patterns of paths', () => {
  test.each([
    ['/repos/**', '/repos/a/b', true],
    ['/repos/**', '/repos/', true],
    ['/repos/**', '/repos', false],
    ['/repos/**', '/reposx/a', false],
    ['/repos/*', '/repos/a', true],
    ['/repos/*', '/repos/a/b', false],
    ['/repos/*/issues', '/repos/a/issues', true],
    ['/repos/*/issues', '/repos/a/b/issues', false],
    ['/**/x', '/a/b/x', true],
    ['/a.b', '/axb', false],
    ['/a+(b)', '/a+(b)', true],
    ['/ü/*', '/%C3%BC/x', true],
    ['/%c3%bc', '/%C3%BC', true],
    ['/', '/', true],
    ['/**', '/', true],
  ] as const)('%s and %s: %s', (pattern, path, expected) => {
    expect(compilePathGlob(pattern)(path)).toBe(expected)
  })

  test('agree with regular expressions', () => {
    const pieces = fc.array(fc.constantFrom('a', 'b', '/', '*', '**', '.'), { maxLength: 8 })
    const paths = fc.array(fc.constantFrom('a', 'b', '/', '.'), { maxLength: 10 })
    fc.assert(
      fc.property(pieces, paths, (some, path) => {
        const pattern = `/${some.join('')}`.replace(/\*{3,}/g, '**')
        const source = pattern.replace(/\*\*|\*|\./g, (piece) => ({ '**': '.*', '*': '[^/]*', '.': '\\.' })[piece] ?? piece)
        const text = `/${path.join('')}`
        expect(compilePathGlob(pattern)(text)).toBe(new RegExp(`^${source}$`).test(text))
      }),
    )
  })

  test('take a time in proportion to the path, whatever it is', () => {
    // A backtracking matcher would not come to an end.
    expect(compilePathGlob('/**a**a**a**a**a**a**a**a**b')(`/${'a'.repeat(16_000)}`)).toBe(false)
  })
})

describe('placeholders', () => {
  const placeholders = [{ env: 'TOKEN', secret: 'token', hosts: ['*.example.com', 'api.example'] }]
  const swapped = (policy: Input, host: string, scheme: 'http' | 'tls' = 'tls'): [string, string | undefined] => {
    const verdict = decided(policy, host, scheme === 'http' ? 80 : 443, scheme, { secrets: { token: 'value' } })
    if (verdict.kind === 'denied') return [verdict.denial.code, undefined]
    const request = verdict.gate({ method: 'GET', path: '/' })
    return [verdict.kind, request.allowed ? request.swap?.('Bearer for-TOKEN') : undefined]
  }

  test('open the TLS of their hosts, where they are allowed, and have their value there alone', () => {
    const policy = { allow: ['*'], placeholders }
    expect(swapped(policy, 'a.example.com')).toEqual(['opened', 'Bearer value'])
    expect(swapped(policy, 'api.example')).toEqual(['opened', 'Bearer value'])
    expect(swapped(policy, 'example.com')).toEqual(['opaque', undefined])
    expect(swapped(policy, 'evil.example')).toEqual(['opaque', undefined])
    expect(swapped(policy, 'a.example.com', 'http')).toEqual(['opened', undefined])
    expect(swapped({ placeholders }, 'a.example.com')).toEqual(['not_allowed', undefined])
    expect(swapped({ ...policy, tls: { bypass: ['api.example'] } }, 'api.example')[0]).toBe('opaque')
  })

  test('go with rules of their hosts', () => {
    const policy = { rules: [{ host: 'api.example', paths: ['/x'] }], placeholders }
    const verdict = decided(policy, 'api.example', 443, 'tls', { secrets: { token: 'value' } })
    expect(verdict.kind !== 'denied' && verdict.gate({ method: 'GET', path: '/' })).toMatchObject({ allowed: false })
    expect(verdict.kind !== 'denied' && verdict.gate({ method: 'GET', path: '/x' })).toMatchObject({ allowed: true })
  })

  test('a connection whose placeholders change is another one', () => {
    const keyOf = (policy: Input) => {
      const verdict = decided(policy, 'api.example', 443)
      return verdict.kind === 'denied' ? '' : verdict.key
    }
    const other = [{ ...placeholders[0], secret: 'other' }] as typeof placeholders
    expect(keyOf({ allow: ['*'], placeholders })).toBe(keyOf({ allow: ['*'], placeholders }))
    expect(keyOf({ allow: ['*'], placeholders })).not.toBe(keyOf({ allow: ['*'], placeholders: other }))
  })
})

test('a gate says whether it looks at paths', () => {
  const looks = (policy: Input) => {
    const verdict = decided(policy, 'api.example', 443)
    return verdict.kind !== 'denied' && verdict.gate.ignoresPaths
  }
  expect(looks({ allow: ['*'] })).toBe(true)
  expect(looks({ rules: [{ host: 'api.example', methods: ['GET'] }] })).toBe(true)
  expect(looks({ rules: [{ host: 'api.example' }, { host: '*.example', paths: ['/a'] }] })).toBe(false)
  expect(looks({ allow: ['*'], placeholders: [{ env: 'T', secret: 's', hosts: ['api.example'] }] })).toBe(true)
})
