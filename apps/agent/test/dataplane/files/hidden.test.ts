import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ListFilesResponse } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { WatchClient } from '../../support/watch-client.ts'

let dp: TestDataplane
const ended = endedAfterEach()
beforeAll(async () => {
  dp = await TestDataplane.start()
  await mkdir(at('.boxoffice/home'), { recursive: true })
  await mkdir(at('project/.boxoffice'), { recursive: true })
  await mkdir(at('.boxoffice-not'))
  await writeFile(at('.boxoffice/home/cache'), 'x')
  await writeFile(at('project/.boxoffice/own'), 'x')
})
afterAll(() => dp[Symbol.asyncDispose]())

const at = (path: string): string => join(dp.sandbox.workspacePath, path)
const list = async (query: Record<string, string>): Promise<string[]> => {
  const response = await dp.fetch(`/files?${new URLSearchParams({ type: 'any', ...query })}`)
  expect(response.status).toBe(200)
  return ((await response.json()) as ListFilesResponse).files.map(({ path }) => path)
}

test('the directory of the sandbox is left out of listings of the workspace, and is there by its path', async () => {
  const shown = ['.boxoffice-not', 'project', 'project/.boxoffice', 'project/.boxoffice/own']
  expect(await list({ path: '' })).toEqual(shown)
  expect(await list({ path: '/workspace' })).toEqual(shown)
  expect(await list({ path: '.', depth: '1' })).toEqual(['.boxoffice-not', 'project'])
  expect(await list({ path: '', pattern: '**/cache' })).toEqual([])
  expect(await list({ path: '.boxoffice' })).toEqual(['.boxoffice/home', '.boxoffice/home/cache'])
  expect(await (await dp.download('.boxoffice/home/cache')).text()).toBe('x')
})

test('and a watch of the workspace does not tell of it', async () => {
  const client = ended(await WatchClient.open(dp, { query: { path: '', recursive: 'true' } }))
  await writeFile(at('.boxoffice/home/more'), 'x')
  await writeFile(at('seen'), 'x')
  expect((await client.upTo('create seen')).filter((change) => change.includes('.boxoffice'))).toEqual([])
})
