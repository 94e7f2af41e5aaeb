import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

const SANDBOXES = 40
/** What is made ahead for sandboxes to come, and connections of clients. */
const OTHERS = 48

const run = async (grant: Grant, command: string): Promise<unknown> =>
  ((await dataplane(grant, 'POST', '/exec', { command })).body as { stdout?: string }).stdout

test('40 idle sandboxes take 40 descriptors of the agent, and run what is asked of them then', async () => {
  await using stack = await startStack({ provider: 'local' })
  const api = brokerApi(stack.brokerUrl)
  const descriptors = (): number => readdirSync(`/proc/${stack.agent().ready.pid}/fd`).length
  const before = descriptors()
  const grants: Grant[] = []
  for (let i = 0; i < SANDBOXES; i++) {
    const grant = await api.ensure(`idle-${i}`)
    expect(await run(grant, `echo ${i}`)).toBe(`${i}\n`)
    grants.push(grant)
  }
  await eventually('each has one descriptor', () => descriptors() <= before + SANDBOXES + OTHERS)
  const [first, ...others] = grants as [Grant, ...Grant[]]
  const numbers = Array.from({ length: 20 }, (_, i) => i)
  expect(await Promise.all(numbers.map((i) => run(first, `echo ${i}`)))).toEqual(numbers.map((i) => `${i}\n`))
  expect(await Promise.all(others.map((grant) => run(grant, 'echo there')))).toEqual(others.map(() => 'there\n'))
})
