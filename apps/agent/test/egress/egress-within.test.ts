import { EgressPolicy, wider } from '@boxoffice/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseHost } from '../../src/egress/address/parse-host.ts'
import { compilePolicy } from '../../src/egress/policy/egress-rules.ts'

type Input = Parameters<typeof EgressPolicy.parse>[0]
const isWider = (policy: Input, base: Input): string | undefined => wider(EgressPolicy.parse(policy), EgressPolicy.parse(base))

describe('a policy is held to another one', () => {
  const rule = { host: 'api.example', methods: ['GET'], inject: [{ header: 'authorization', secret: 'token' }] }
  test.each<[Input, Input]>([
    [{}, { allow: ['a.example'] }],
    [{ allow: ['a.example', 'b.a.example:443'] }, { allow: ['a.example', '*.a.example'] }],
    [{ allow: ['*.b.example'] }, { allow: ['*'] }],
    [
      { allow: ['a.example'], deny: ['x.example', 'y.example'] },
      { allow: ['*'], deny: ['x.example'] },
    ],
    [{ allow: ['127.1'] }, { allow: ['127.0.0.1'] }],
    [{ rules: [rule] }, { rules: [rule], allow: ['*'] }],
    [{ rules: [{ host: 'a.example', methods: ['GET'] }] }, { allow: ['*.example'] }],
    [
      { allow: ['*'], deny: ['api.example'] },
      { allow: ['*'], rules: [rule] },
    ],
    [{ tls: { terminate: 'all' } }, {}],
  ])('%j within %j', (policy, base) => {
    expect(isWider(policy, base)).toBeUndefined()
  })

  test.each<[Input, Input, string]>([
    [{ allow: ['*'] }, { allow: ['a.example'] }, 'allow: *'],
    [{ allow: ['a.example:8443'] }, { allow: ['a.example'] }, 'allow: a.example:8443'],
    [{ allow: ['a.example:80'] }, { allow: ['*'] }, 'allow: a.example:80'],
    [{ allow: ['8.8.8.8'] }, { allow: ['*'] }, 'allow: 8.8.8.8'],
    [{ allow: ['134744072'] }, { allow: ['*'] }, 'allow: 134744072'],
    [{ allow: ['example'] }, { allow: ['*.example'] }, 'allow: example'],
    [{ allow: ['*'] }, { allow: ['*'], deny: ['x.example'] }, 'deny: x.example'],
    [{ allow: ['*'] }, { allow: ['*'], rules: [rule] }, 'rules: the rule for api.example'],
    [{ allow: ['*'], rules: [rule, { host: 'api.example' }] }, { allow: ['*'], rules: [rule] }, 'rules: api.example has rules'],
    [{ rules: [rule] }, { allow: ['*'] }, 'sets a header'],
    [{ rules: [{ host: 'a.example' }] }, { allow: ['b.example'] }, 'rules: a.example is not in its allow'],
    [{ private_addresses: true }, {}, 'private_addresses'],
    [{ tls: { terminate: 'none' } }, {}, 'tls.terminate'],
    [{ tls: { bypass: ['a.example'] } }, {}, 'tls.bypass'],
    [{ placeholders: [{ env: 'T', secret: 's', hosts: ['a.example'] }] }, { allow: ['a.example'] }, 'placeholders: the one for T'],
  ])('%j is more than %j', (policy, base, why) => {
    expect(isWider(policy, base)).toContain(why)
  })
})

/** Few hosts and ports, so that targets, rules and requests meet. */
const HOSTS = ['a.example', 'b.a.example', 'c.b.a.example', 'example', '8.8.8.8', '[::1]']
const PORTS = [80, 443, 8443]
const target = fc
  .tuple(
    fc.constantFrom('a.example', 'b.a.example', '*.a.example', '*.example', '*', 'example', '8.8.8.8', '134744072', '[::1]'),
    fc.constantFrom('', '', ':80', ':443', ':8443'),
  )
  .map(([host, port]) => host + port)
const targets = fc.array(target, { maxLength: 3 })
const rule = fc.record(
  {
    host: target,
    methods: fc.constantFrom(['GET'], ['POST'], ['GET', 'POST']),
    paths: fc.constantFrom(['/a'], ['/**']),
    inject: fc.constantFrom([], [{ header: 'x-token', secret: 'one' }]),
  },
  { requiredKeys: ['host'] },
)
const policy = fc
  .record({
    allow: targets,
    deny: targets,
    rules: fc.array(rule, { maxLength: 2 }),
    tls: fc.record({ terminate: fc.constantFrom('rules', 'all', 'none'), bypass: fc.array(target, { maxLength: 1 }) }),
    private_addresses: fc.boolean(),
  })
  .map((input) => EgressPolicy.parse(input))
/** A policy and one that is like it, so that many pairs are within each other. */
const pair = fc
  .tuple(policy, policy, fc.subarray(['allow', 'deny', 'rules', 'tls', 'private_addresses'] as const))
  .map(([base, other, own]) => {
    const mixed: EgressPolicy = { ...base }
    for (const name of own) Object.assign(mixed, { [name]: name === 'deny' ? [...base.deny, ...other.deny] : other[name] })
    return [mixed, base] as const
  })

/** What a client can get: nothing, the bytes of a connection, or the requests that it may send, by connection and request. */
const reached = (of: EgressPolicy): Map<string, string> => {
  const rules = compilePolicy(of, { secrets: () => 'value', sentinelOf: (env) => env })
  const found = new Map<string, string>()
  for (const text of HOSTS)
    for (const port of PORTS)
      for (const scheme of ['http', 'tls'] as const) {
        const verdict = rules.decide(parseHost(text) ?? expect.fail(text), port, scheme)
        if (verdict.kind === 'denied') continue
        const at = `${scheme} ${text}:${port}`
        if (verdict.isPlainAllowed) found.set(`${at} plain`, '')
        for (const method of ['GET', 'POST'])
          for (const path of ['/a', '/b']) {
            const request = verdict.gate({ method, path })
            if (verdict.kind === 'opaque') found.set(`${at} ${method} ${path}`, 'unread')
            else if (request.allowed) found.set(`${at} ${method} ${path}`, request.headers.length > 0 ? 'with a header' : 'read')
          }
      }
  return found
}

test('whatever a policy that is within another allows, the other allows too, and no header is set that it does not set', () => {
  let within = 0
  fc.assert(
    fc.property(pair, ([narrow, base]) => {
      if (wider(narrow, base) !== undefined) return
      within++
      const allowed = reached(base)
      for (const [what, how] of reached(narrow)) {
        expect(allowed.has(what), what).toBe(true)
        if (how === 'with a header') expect(allowed.get(what), what).toBe('with a header')
        // Once it is read, it stays read: what reads it holds it to methods and paths.
        if (how === 'unread') expect(allowed.get(what), what).toBe('unread')
      }
    }),
    { numRuns: 20_000 },
  )
  expect(within).toBeGreaterThan(2_000)
})
