import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { request } from './e2e/support/api.ts'
import { ROOT } from './e2e/support/program.ts'
import { API_KEY, startStack } from './e2e/support/stack.ts'

type Metric = { name: string; kind: string; says: string }

/** What the page says of each metric. */
const onPage = (): Metric[] =>
  [...readFileSync(join(ROOT, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(boxoffice_\w+)` \| (\w+) \| (.*?) \| .+ \|$/gm)].map(
    ([, name = '', kind = '', says = '']) => ({ name, kind, says }),
  )

/** What a process tells of itself. */
const told = async (url: string): Promise<Metric[]> => {
  const { status, text } = await request(`${url}/metrics`, { headers: { authorization: `Bearer ${API_KEY}` } })
  expect(status, text).toBe(200)
  return [...text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$/gm)].map(([, name = '', says = '', kind = '']) => ({ name, kind, says }))
}

const byName = (one: Metric, other: Metric): number => (one.name < other.name ? -1 : 1)

test('the page of metrics has each that a broker and an agent tell, with its kind and what it says, and no other', async () => {
  await using stack = await startStack({ provider: 'local' })
  const metrics = [...(await told(stack.brokerUrl)), ...(await told(stack.agent().ready.agent_url))]
  expect(onPage().toSorted(byName)).toEqual(metrics.toSorted(byName))
})

test('the page has each metric that the sources name', () => {
  const named = ['apps/broker/src', 'apps/agent/src'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) => [...readFileSync(join(ROOT, folder, path), 'utf8').matchAll(/name: '(boxoffice_\w+)'/g)].map(([, name]) => name)),
  )
  expect(named.toSorted()).toEqual(
    onPage()
      .map(({ name }) => name)
      .toSorted(),
  )
})
