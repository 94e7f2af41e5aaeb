import { expect, test } from 'vitest'
import { BrokerConfig } from '../../src/config/config.ts'

const issuesOf = (egress: object): string[] => {
  const { error } = BrokerConfig.safeParse({ profiles: [{ name: 'a', network: 'proxy', egress }] })
  return (error?.issues ?? []).filter(({ path }) => path[0] === 'profiles').map(({ path, message }) => `${path.join('.')}: ${message}`)
}

test('a profile whose policy names a list is refused, as there are none', () => {
  expect(issuesOf({ allow: ['@mirrors', 'x.example'] })).toEqual([
    'profiles.0.egress: names the list @mirrors, and there are no lists; write its hosts',
  ])
  expect(issuesOf({ allow: ['x.example'] })).toEqual([])
})

test('a profile whose policy has a misspelt key is refused', () => {
  expect(issuesOf({ deni: ['x.example'] })).toEqual(['profiles.0.egress: Unrecognized key: "deni"'])
})
