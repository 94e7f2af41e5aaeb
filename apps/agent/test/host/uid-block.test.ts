import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { claimUidBlock, UID_BLOCKS } from '../../src/data-dir/uid-block.ts'

let root: string
let registry: string

beforeEach(async () => {
  root = await mkdtemp('/tmp/bxu-')
  registry = join(root, 'run', 'uid-blocks')
  onTestFinished(() => rm(root, { recursive: true, force: true }))
})

const dataDirectory = async (name: string, noted?: number): Promise<string> => {
  const path = join(root, name)
  await mkdir(path)
  if (noted !== undefined) await writeFile(join(path, 'uid-block'), String(noted))
  return path
}

describe('the block of user ids of an agent', () => {
  test('is of one data directory, also where install ids hash alike', async () => {
    const directories = await Promise.all(Array.from({ length: 20 }, (_, at) => dataDirectory(`agent-${at}`)))
    const blocks = await Promise.all(directories.map((path) => claimUidBlock(path, 'the same', registry)))
    expect(new Set(blocks).size).toBe(20)
  })

  test('stays through restarts, and through a boot that empties /run', async () => {
    const [first, second] = [await dataDirectory('first'), await dataDirectory('second')]
    const of = async () => [await claimUidBlock(first, 'the same', registry), await claimUidBlock(second, 'the same', registry)]
    const [one, two] = await of()
    expect(two).toBe(((one ?? 0) + 1) % UID_BLOCKS)
    expect(await of()).toEqual([one, two])
    await rm(registry, { recursive: true })
    const again = await claimUidBlock(second, 'the same', registry)
    expect([await claimUidBlock(first, 'the same', registry), again]).toEqual([one, two])
  })

  test('is free again when its data directory is gone, or has another', async () => {
    const gone = await dataDirectory('gone')
    const block = await claimUidBlock(gone, 'the same', registry)
    await rm(gone, { recursive: true })
    const next = await dataDirectory('next')
    expect(await claimUidBlock(next, 'the same', registry)).toBe(block)
    await writeFile(join(next, 'uid-block'), String((block + 7) % UID_BLOCKS))
    expect(await claimUidBlock(await dataDirectory('third'), 'the same', registry)).toBe(block)
  })

  test('is found past the last one, and a note that is none counts for nothing', async () => {
    const last = UID_BLOCKS - 1
    expect(await claimUidBlock(await dataDirectory('a', last), 'x', registry)).toBe(last)
    const second = await dataDirectory('b', last)
    expect(await claimUidBlock(second, 'x', registry)).toBe(0)
    expect(await readFile(join(second, 'uid-block'), 'utf8')).toBe('0')
    const hashed = await claimUidBlock(await dataDirectory('c'), 'x', registry)
    expect(await claimUidBlock(await dataDirectory('d', UID_BLOCKS), 'x', registry)).toBe((hashed + 1) % UID_BLOCKS)
  })

  test('is the hash of the install id where /run cannot be written', async () => {
    await writeFile(join(root, 'run'), 'a file')
    const one = await claimUidBlock(await dataDirectory('one'), 'the same', registry)
    expect(await claimUidBlock(await dataDirectory('two'), 'the same', registry)).toBe(one)
  })
})
