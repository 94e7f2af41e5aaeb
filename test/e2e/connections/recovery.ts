import { createHash } from 'node:crypto'
import { connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'

const LINES = 400_000

/** What `seq 1 n` prints: 2.7 MB for 400,000, more than any ring or buffer on the way holds. */
const numbers = (count: number): Buffer => Buffer.from(`${Array.from({ length: count }, (_, i) => i + 1).join('\n')}\n`)

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Collects a stream and calls `at` whenever another `step` bytes have come. */
const collect = async (source: AsyncIterable<Uint8Array>, step: number, at: (bytes: number) => Promise<void> | void): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let [length, next] = [0, step]
  for await (const piece of source) {
    pieces.push(piece)
    length += piece.length
    if (length >= next) {
      next += step
      await at(length)
    }
  }
  return Buffer.concat(pieces)
}

/** Output lost on reconnect: the field's first complaint. */
export const recoverySuite = (provider: ProviderName): void => {
  describe.each(MODES)(`%s, ${provider}: a client whose connection drops`, (mode) => {
    let stack: Stack
    let session: Session
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('recovery')
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    test('[3.4] gets every byte once and the true exit, over ten cut connections', async () => {
      const run = await session.exec.start(`seq 1 ${LINES}; exit 3`)
      let cuts = 0
      const received = await collect(run.stdout, 256 * 1024, () => {
        if (cuts < 10) stack.cutConnections()
        cuts++
      })
      expect(received.equals(numbers(LINES))).toBe(true)
      expect(cuts).toBeGreaterThanOrEqual(10)
      expect(await run.exit).toMatchObject({ exitCode: 3, signal: null, reason: 'exited' })
    })

    test('[3.4] gets every byte once when the agent is killed with -9 in the middle of a stream and comes back', async () => {
      const run = await session.exec.start(`seq 1 ${LINES}; exit 4`)
      let killed = 0
      const received = await collect(run.stdout, 512 * 1024, async () => {
        if (killed++ > 1) return
        await stack.agent().kill('SIGKILL')
        await stack.startAgent()
      })
      expect(sha256(received)).toBe(sha256(numbers(LINES)))
      expect(killed).toBeGreaterThan(1)
      expect(await run.exit).toMatchObject({ exitCode: 4, signal: null, reason: 'exited' })
      expect(await session.exec('echo next')).toMatchObject({ stdout: 'next\n', exitCode: 0 })
    })

    test('[3.4] sends every byte of stdin once, over cut connections', async () => {
      const input = numbers(LINES)
      const run = await session.exec.start('sha256sum')
      const feed = (async () => {
        for (let at = 0; at < input.length; at += 64 * 1024) {
          await run.stdin.write(input.subarray(at, at + 64 * 1024))
          if (at % (512 * 1024) === 0) stack.cutConnections()
        }
        await run.stdin.end()
      })()
      const text = await run.text()
      await feed
      expect(text).toBe(`${sha256(input)}  -\n`)
      expect(await run.exit).toMatchObject({ exitCode: 0 })
    })

    test('[3.3] echoes more than both windows hold without a deadlock', async () => {
      const input = Buffer.alloc(8 * 1024 * 1024, 'abcdefgh')
      const run = await session.exec.start('cat')
      const feed = run.stdin.write(input).then(() => run.stdin.end())
      const received = await collect(run.stdout, Number.POSITIVE_INFINITY, () => {})
      await feed
      expect(sha256(received)).toBe(sha256(input))
      expect(await run.exit).toMatchObject({ exitCode: 0 })
    })

    test('[C-29] a buffered exec whose connection drops runs once and answers', async () => {
      const command = 'echo line >> buffered; sleep 1; cat buffered'
      const result = session.exec(command)
      const running = await session.exec.start('while [ ! -s buffered ]; do sleep 0.01; done')
      await running.exit
      stack.cutConnections()
      expect(await result).toMatchObject({ stdout: 'line\n', exitCode: 0 })
    })
  })
}
