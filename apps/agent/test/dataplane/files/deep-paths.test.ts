import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { refused } from '../../support/refused.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const deep = (parts: number): string => Array(parts).fill('d').join('/')

const tarOf = async (name: string): Promise<Buffer> => {
  const archive = pack()
  archive.entry({ name }, 'x')
  archive.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of archive) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const list = async (path: string): Promise<{ files: { path: string }[]; truncated: boolean }> =>
  (await (await dp.fetch(`/files?${new URLSearchParams({ path, type: 'any' })}`)).json()) as never

const remove = async (path: string): Promise<number> =>
  (await dp.fetch(`/files?${new URLSearchParams({ path, recursive: 'true' })}`, { method: 'DELETE' })).status

describe('a path of many parts', () => {
  test.each([257, 1500, 2040])('%i of them are refused, and the sandbox lives on', { timeout: 120_000 }, async (parts) => {
    const path = deep(parts)
    await dp.upload('source', 'x')
    const answers = [
      await dp.upload(path, 'x'),
      await dp.post('/files/mkdir', { path }),
      await dp.upload('.', new Uint8Array(await tarOf(path)), { archive: 'tar' }),
      await dp.post('/files/move', { from: 'source', to: path }),
      await dp.post('/files/move', { from: path, to: 'target' }),
      await dp.fetch(`/files/stat?path=${path}`),
      await dp.fetch(`/files?path=${path}`, { method: 'DELETE' }),
    ]
    expect(await Promise.all(answers.map(refused))).toEqual(answers.map(() => [400, 'INVALID_PATH']))
    await expect(access(join(dp.sandbox.workspacePath, 'd'))).rejects.toThrow('ENOENT')
    expect(await dp.exec({ command: 'echo there' })).toMatchObject({ stdout: 'there\n' })
  })

  test('256 of them are made, moved, listed and removed', { timeout: 120_000 }, async () => {
    expect((await dp.upload(`a/${deep(254)}/f`, 'x')).status).toBe(200)
    expect((await dp.post('/files/mkdir', { path: `b/${deep(255)}` })).status).toBe(200)
    expect((await dp.upload('.', new Uint8Array(await tarOf(`c/${deep(254)}/f`)), { archive: 'tar' })).status).toBe(200)
    expect((await dp.post('/files/move', { from: `c/${deep(254)}/f`, to: `e/${deep(254)}/f` })).status).toBe(200)
    expect(await (await dp.download(`e/${deep(254)}/f`)).text()).toBe('x')
    const listed = await list('e')
    expect([listed.files.length, listed.truncated]).toEqual([255, false])
    for (const top of ['a', 'b', 'c', 'e']) expect(await remove(top)).toBe(204)
  })

  test('what a command has made deeper is left out of listings, and can be removed', { timeout: 120_000 }, async () => {
    await dp.exec({ command: `perl -e 'for (1..1700) { mkdir "n" and chdir "n" or die } open(my $f, ">", "f")'` })
    const listed = await list('n')
    expect([listed.files.length, listed.truncated]).toEqual([255, true])
    expect(await refused(await dp.download('n', {}, { archive: 'tar' }))).toEqual([400, 'INVALID_REQUEST'])
    expect(await remove('n')).toBe(204)
    expect(await list('n').then(({ files }) => files)).toBeUndefined()
    expect(await dp.exec({ command: 'ls' })).toMatchObject({ stdout: 'source\n' })
  })
})
