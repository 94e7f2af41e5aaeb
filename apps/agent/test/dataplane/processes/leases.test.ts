import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { nextStart } from '../../../src/ws/processes/line-start.ts'
import { TestDataplane } from '../../support/dataplane.ts'
import { LineClient } from '../../support/line-client.ts'
import { until } from '../../support/processes.ts'

let plane: TestDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
})
afterEach(() => plane[Symbol.asyncDispose]())

const start = async (script: string): Promise<void> => {
  const response = await plane.post('/processes', { process_id: 'p', command: '/bin/sh', args: ['-c', script] })
  expect(response.status).toBe(201)
}
const open = (): Promise<LineClient> => LineClient.open(plane, 'p', { protocols: [SUBPROTOCOL_LINES] })
const runOf = async (client: LineClient): Promise<string> => {
  await client.until(() => client.frames.length > 0)
  const [ready] = client.frames
  return ready?.type === 'ready' ? ready.run : ''
}
/** The process says so by a file. */
const written = (name: string): Promise<void> => until(`${name} is there`, () => existsSync(join(plane.sandbox.workspacePath, name)))

test('a client that is refused sends nobody away, also when it would take over', { tags: ['2-64'] }, async () => {
  await start('exec cat')
  const client = await open()
  const run = await runOf(client)
  for (const [wrong, status] of [
    ['stdout_offset=5', 400],
    ['stdout_offset=x', 400],
    [`run=${run}&stdout_offset=5`, 400],
    ['run=p.p.0', 409],
    ['run=p.p.0&stdout_offset=0', 409],
  ] as const)
    expect(await LineClient.refused(plane, 'p', { query: `?takeover=true&${wrong}` })).toMatchObject({ status })
  client.send('still mine')
  expect(await client.got(1)).toEqual(['still mine'])
})

test('of a line that is too long the rest is left out too: the next client begins with the next line', { tags: ['2-68'] }, async () => {
  await start('read go; head -c 17000000 /dev/zero | tr "\\0" x; echo; echo next; touch written; exec cat')
  const client = await open()
  client.send('go')
  expect(await client.closed).toMatchObject({ code: 1009 })
  await written('written')
  const next = await LineClient.open(plane, 'p', { query: '?takeover=true' })
  expect(await next.got(1)).toEqual(['next'])
})

test('where nobody knows any more who got what, a client begins with the line that is not whole yet', { tags: ['2-65'] }, async () => {
  await start('echo one; printf tw; touch written; read x; echo o; exec cat')
  await written('written')
  const client = await open()
  const run = await runOf(client)
  expect(await nextStart(plane.sandbox, run, undefined)).toEqual({ from: 4, gap: undefined })
  client.send('go')
  expect(await client.got(2)).toEqual(['one', 'two'])
})
