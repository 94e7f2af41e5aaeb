import { connect, isCode, type Session, type SessionOptions } from '@boxoffice/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'

const LINES = 400_000
const numbers = (count: number): Buffer => Buffer.from(`${Array.from({ length: count }, (_, i) => i + 1).join('\n')}\n`)

/** An agent that clients cannot reach, and brokers can: the SDK goes through the relay by itself [3.11]. */
export const fallbackSuite = (provider: ProviderName): void => {
  describe(`${provider}: a client that is cut off from the agent`, () => {
    let stack: Stack
    beforeAll(async () => {
      stack = await startStack({ provider })
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())
    afterEach(() => stack.proxy.unblock())

    const sessionOf = async (thread: string, options: SessionOptions = {}) => {
      const session = await connect(stack.brokerUrl, { apiKey: API_KEY, reconnectWindowMs: 20_000 }).session(thread, options)
      const told: (string | undefined)[] = []
      session.onModeChange = (mode) => told.push(mode)
      return { session, told }
    }
    const roundTrip = async (session: Session) => {
      await session.files.mkdir('made/here')
      await session.files.upload('made/here/a', 'text')
      expect(await session.files.text('made/here/a')).toBe('text')
      expect(await session.exec('cat made/here/a')).toMatchObject({ stdout: 'text', exitCode: 0 })
    }

    test('in the middle of a stream gets every byte once and the true exit, and says that it is relayed', async () => {
      const { session, told } = await sessionOf('stream')
      expect(session.mode).toBe('direct')
      const run = await session.exec.start(`seq 1 ${LINES}; exit 3`)
      const pieces: Uint8Array[] = []
      let blocked = false
      for await (const piece of run.stdout) {
        pieces.push(piece)
        if (blocked) continue
        blocked = true
        await stack.proxy.block()
      }
      expect(Buffer.concat(pieces).equals(numbers(LINES))).toBe(true)
      expect(await run.exit).toMatchObject({ exitCode: 3, signal: null, reason: 'exited' })
      expect([session.mode, told]).toEqual(['relay', ['relay']])
      await roundTrip(session)
      // It stays there, also when the direct way is back, until the next negotiation.
      await stack.proxy.unblock()
      await roundTrip(session)
      expect([session.mode, told]).toEqual(['relay', ['relay']])
      expect((await sessionOf('stream')).session.mode).toBe('direct')
    })

    test('feeds stdin on, without a byte lost or repeated', async () => {
      const { session } = await sessionOf('stdin')
      const input = numbers(LINES)
      const run = await session.exec.start('cat > got')
      const feed = (async () => {
        for (let at = 0; at < input.length; at += 64 * 1024) {
          await run.stdin.write(input.subarray(at, at + 64 * 1024))
          if (at === 1024 * 1024) await stack.proxy.block()
        }
        await run.stdin.end()
      })()
      await feed
      expect(await run.exit).toMatchObject({ exitCode: 0 })
      expect(Buffer.from(await session.files.download('got')).equals(input)).toBe(true)
      expect(session.mode).toBe('relay')
    })

    test('before its first request does not notice but by the mode', async () => {
      await stack.proxy.block()
      const { session, told } = await sessionOf('first')
      await roundTrip(session)
      expect([session.mode, told]).toEqual(['relay', ['relay']])
      const shell = await session.shell({ cols: 80, rows: 24 })
      await shell.write('exit 7\n')
      expect(await shell.exit).toMatchObject({ exitCode: 7 })
    })

    test('for a first stream does not wait for the window of the direct way', async () => {
      await stack.proxy.block()
      const { session } = await sessionOf('first-stream')
      const run = await session.exec.start('echo through')
      expect(await run.text()).toBe('through\n')
      expect(session.mode).toBe('relay')
    })

    test('goes on directly after a mere interruption', async () => {
      const { session, told } = await sessionOf('interrupted')
      const run = await session.exec.start('head -c 3000000 /dev/zero')
      let cut = false
      let bytes = 0
      for await (const piece of run.stdout) {
        bytes += piece.length
        if (!cut) stack.cutConnections()
        cut = true
      }
      expect([bytes, session.mode, told]).toEqual([3_000_000, 'direct', []])
    })

    test('with relay "never" is told that nobody answers', async () => {
      const { session } = await sessionOf('never', { relay: 'never' })
      await stack.proxy.block()
      await expect(session.files.mkdir('x')).rejects.toSatisfy((error) => isCode(error, 'CONNECTION_FAILED'))
      expect(session.mode).toBe('direct')
    })

    test('while the agent is away too, comes back on whichever way is there first', async () => {
      const { session } = await sessionOf('both')
      await session.exec('true')
      await stack.agent().kill('SIGKILL')
      const ran = session.exec('echo back')
      await stack.startAgent()
      expect(await ran).toMatchObject({ stdout: 'back\n', exitCode: 0 })
    })
  })
}
