import { connect, type FileChange, type Session } from '@boxoffice/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

describe('local: a watch of files', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local' })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  afterEach(() => stack.proxy.unblock())

  const sessionOf = (thread: string): Promise<Session> => connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread)

  /** Changes up to the one that is looked for. */
  const upTo = async (changes: AsyncIterator<FileChange>, last: (change: FileChange) => boolean): Promise<FileChange[]> => {
    const all: FileChange[] = []
    for (;;) {
      const { value, done } = await changes.next()
      if (done) throw new Error(`the watch ended after ${JSON.stringify(all)}`)
      all.push(value)
      if (last(value)) return all
    }
  }
  const isPath = (path: string) => (change: FileChange) => 'path' in change && change.path === path

  test('tells of what commands and uploads do, below new directories too, until it is closed', async () => {
    const session = await sessionOf('watch-changes')
    await session.files.mkdir('src')
    const watch = await session.files.watch('src', { recursive: true })
    const changes = watch[Symbol.asyncIterator]()
    await session.exec('mkdir -p src/a/b && echo x > src/a/b/file')
    expect(await upTo(changes, isPath('src/a/b/file'))).toContainEqual({ type: 'create', path: 'src/a', directory: true })
    await session.files.upload('src/uploaded', 'text')
    await upTo(changes, isPath('src/uploaded'))
    watch.close()
    for await (const _ of { [Symbol.asyncIterator]: () => changes });
  })

  test('goes on through the relay, and says that changes are lost', async () => {
    const session = await sessionOf('watch-relay')
    await session.files.mkdir('src')
    const watch = await session.files.watch('src')
    const changes = watch[Symbol.asyncIterator]()
    expect(session.mode).toBe('direct')
    await stack.proxy.block()
    await upTo(changes, ({ type }) => type === 'overflow')
    expect(session.mode).toBe('relay')
    await session.files.upload('src/later', 'text')
    await upTo(changes, isPath('src/later'))
    watch.close()
  })

  test('ends with its directory, and is refused for what is none', async () => {
    const session = await sessionOf('watch-ends')
    await session.files.mkdir('short')
    const watch = await session.files.watch('short')
    await session.files.delete('short')
    for await (const _ of watch);
    await expect(session.files.watch('missing')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  })
})
