import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BoxApi, boxApi } from '../support/box.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

describe('local: the Box surface of two brokers on PostgreSQL', () => {
  let stack: Stack
  let one: BoxApi
  let other: BoxApi
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', database: 'postgres', brokers: 2 })
    const [a = '', b = ''] = stack.brokerUrls.map((url) => `${url}/compat/box`)
    one = boxApi(a)
    other = boxApi(b)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  test('[2-25, 0-46] each lists the processes that another has started, ended ones too', async () => {
    await one.create('s')
    await one.start('s', { command: 'sh', args: ['-c', 'echo why >&2; exit 3'] }, 'ends')
    await one.start('s', { command: 'cat' }, 'runs')
    const ended = { status: 'exited', exit_code: 3, stderr_preview: 'why\n' }
    await expect
      .poll(async () => (await other.get('s')).body)
      .toMatchObject({ managed_processes: { ends: ended, runs: { status: 'running' } } })
    expect((await other.status()).body).toMatchObject({ managed_processes: 1 })
    expect((await other.stop('s', 'runs')).status).toBe(200)
    for (const box of [one, other]) {
      expect((await box.get('s')).body).toMatchObject({ managed_processes: { ends: ended, runs: { status: 'exited' } } })
      expect((await box.status()).body).toMatchObject({ managed_processes: 0 })
    }
    await one.remove('s')
    expect((await other.get('s')).status).toBe(404)
  })

  test('[2-47, 2-48] each tells of the last errors of both, and a broker that starts anew of those before it', async () => {
    for (const [n, box] of [one, other, one].entries()) await box.exec('s', ' ', { query_id: n })
    const errors = async (url = '') => {
      const response = await fetch(`${url}/api/v1/box/errors`, { headers: { authorization: `Bearer ${API_KEY}` } })
      return ((await response.json()) as { errors: { query_id: string }[] }).errors.map(({ query_id }) => query_id).slice(-3)
    }
    for (const url of stack.brokerUrls) expect(await errors(url)).toEqual(['0', '1', '2'])
    await stack.broker(1).kill('SIGKILL')
    await stack.startBroker(1)
    expect(await errors(stack.brokerUrls[1])).toEqual(['0', '1', '2'])
  })
})
