import { connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually, filesBelow } from '../support/traces.ts'

/** [C-55] What becomes of a thread's files when its session is released. */
export const workspacesSuite = (provider: ProviderName): void => {
  describe(`${provider}: the files of a released session`, () => {
    let stack: Stack
    const session = (thread: string, profile?: string): Promise<Session> =>
      connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread, profile === undefined ? {} : { profile })
    beforeAll(async () => {
      stack = await startStack({
        provider,
        config: {
          profiles: [
            { name: 'lasting', persistent: true },
            { name: 'pooled', pool_size: 1 },
          ],
        },
      })
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    const files = async (of: Session): Promise<string> => (await of.exec('cat notes 2>/dev/null || echo none')).stdout
    const write = (of: Session, text: string) => of.exec(`echo ${text} >> notes`)

    test('are there again after keep_workspace, as often as it is said, and gone after a release without', async () => {
      const first = await session('kept')
      await write(first, 'one')
      await first.release({ keepWorkspace: true })
      const second = await session('kept')
      expect(await files(second)).toBe('one\n')
      await write(second, 'two')
      await second.release({ keepWorkspace: true })
      const third = await session('kept')
      expect(await files(third)).toBe('one\ntwo\n')
      await third.release()
      expect(await files(await session('kept'))).toBe('none\n')
    })

    test('are there again when the sandbox came from the pool', async () => {
      await eventually('the pool is full', async () => {
        const text = await (await fetch(`${stack.agent().ready.agent_url}/metrics`)).text()
        return /boxoffice_agent_pool_ready\{profile="pooled"\} 1/.test(text)
      })
      const first = await session('pooled', 'pooled')
      await write(first, 'one')
      await first.release({ keepWorkspace: true })
      expect(await files(await session('pooled', 'pooled'))).toBe('one\n')
    })

    test('of a persistent profile are there again after every release', async () => {
      const first = await session('lasting', 'lasting')
      await write(first, 'one')
      await first.release()
      expect(await files(await session('lasting', 'lasting'))).toBe('one\n')
    })

    test('are there again when the agent was away at the release', { timeout: 120_000 }, async () => {
      const first = await session('away')
      await write(first, 'one')
      await stack.agent().kill('SIGKILL')
      await first.release({ keepWorkspace: true })
      await stack.startAgent()
      expect(await files(await session('away'))).toBe('one\n')
    })

    test('are not seen by another thread, and leave nothing behind when they are not kept', async () => {
      const first = await session('plain')
      const itsFiles = async () => (await filesBelow(stack.agentDataDir)).filter((path) => path.includes(first.sandboxId))
      await write(first, 'one')
      expect(await files(await session('another'))).toBe('none\n')
      expect(await itsFiles()).not.toEqual([])
      await first.release()
      await eventually('all of it is gone', async () => (await itsFiles()).length === 0)
    })
  })
}
