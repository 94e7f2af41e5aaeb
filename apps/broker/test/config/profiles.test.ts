import { expect, test } from 'vitest'
import { BrokerConfig, profilesOf, resolveConfig } from '../../src/config/config.ts'

const issuesOf = (egress: object): string[] => {
  const { error } = BrokerConfig.safeParse({ profiles: [{ name: 'a', network: 'proxy', egress }] })
  return (error?.issues ?? []).filter(({ path }) => path[0] === 'profiles').map(({ path, message }) => `${path.join('.')}: ${message}`)
}

test('a profile whose policy names a list has its hosts, and one whose list is not there is refused', () => {
  const resolved = (egressLists: Record<string, string[]>) =>
    profilesOf(
      resolveConfig({
        ...{ dataDir: '/nowhere', egressLists },
        profiles: [{ name: 'p', network: 'proxy', egress: { allow: ['@mirrors', 'x.example'] } }],
      } as never),
    ).get('p')?.egress?.allow
  expect(resolved({ mirrors: ['m.example', '*.m.example'] })).toEqual(['m.example', '*.m.example', 'x.example'])
  expect(() => resolved({ others: [] })).toThrow(
    'setting profiles is not valid: egress: there is no list @mirrors (setting egress_lists); there are @others',
  )
  expect(() => resolved({ mirrors: ['@others'] })).toThrow('egressLists')
})

test('a profile whose policy has a misspelt key is refused', () => {
  expect(issuesOf({ deni: ['x.example'] })).toEqual(['profiles.0.egress: Unrecognized key: "deni"'])
})
