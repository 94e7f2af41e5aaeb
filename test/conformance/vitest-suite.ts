import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../e2e/support/stack.ts'
import { allCases } from './cases/index.ts'
import { Target } from './target.ts'

const config = JSON.parse(readFileSync(new URL('broker.json', import.meta.url), 'utf8')) as Record<string, unknown>

/** Every case against a broker and an agent of their own processes, directly and through the relay. */
export const conformanceSuite = (provider: ProviderName): void => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider, config })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  describe.each(['direct', 'relay'] as const)('%s', (mode) => {
    let target: Target
    beforeAll(() => {
      target = new Target({ broker: stack.brokerUrl, key: API_KEY, mode })
    })
    afterAll(() => target?.close())
    test.concurrent.each(allCases.map((one) => [`[${one.numbers.join(', ')}] ${one.name}`, one] as const))('%s', (_, { run }) =>
      run(target),
    )
  })
}
