import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { dialPort } from '../../src/supervisor/tunnel.ts'
import { encodeDataHeader, encodeFrame, FRAME } from '../../src/supervisor/wire.ts'
import { run } from '../host/support/exec.ts'
import { eventually } from '../support/eventually.ts'
import { FakeSupervisor, withLink } from '../support/fake-supervisor.ts'
import { TestSandbox } from '../support/sandbox.ts'

/** The supervisor has written all of it, and the end behind it, while the agent has read its beginning. */
const KEPT_BY_THE_KERNEL = 100_000
/** What a tunnel takes before its reader reads. */
const READ_AHEAD = 256 * 1024

/** Runs a command whose output is read to its first piece and no further, until `read` is called. */
const startUnread = async (sandbox: TestSandbox): Promise<{ read: () => Promise<number> }> => {
  const ended = Promise.withResolvers<number>()
  const began = Promise.withResolvers<void>()
  let bytes = 0
  const channel = await sandbox.link.open({
    data(_stream, piece) {
      if (bytes === 0) channel.pause()
      bytes += piece.length
      began.resolve()
    },
    frame: () => ended.resolve(bytes),
    closed: () => ended.reject(new Error('the link broke before the process ended')),
  })
  const fields = { stdin: 'closed', grace_ms: 1000, detach: false, stdout: 0, stderr: 0, quiet: true }
  const command = `head -c ${KEPT_BY_THE_KERNEL} /dev/zero`
  channel.send(FRAME.start, { ...{ id: randomUUID(), fingerprint: '', meta: '', command, env: {} }, ...fields })
  ended.promise.catch(() => {})
  await began.promise
  return {
    read() {
      channel.resume()
      return ended.promise
    },
  }
}

test('operations whose ends wait for their readers leave room for what is asked next', async () => {
  await using sandbox = await TestSandbox.start()
  const unread = []
  for (let i = 0; i < 100; i++) {
    unread.push(await startUnread(sandbox))
    expect((await run(sandbox, `echo ${i}`)).stdout).toBe(`${i}\n`)
  }
  for (const { read } of unread) expect(await read()).toBe(KEPT_BY_THE_KERNEL)
  expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
})

test('a tunnel whose last bytes come with their end gives its channel back', () =>
  withLink({ idleMs: 60_000 }, async (link, directory) => {
    const supervisor = new FakeSupervisor(directory, { spares: true, dials: true })
    try {
      await eventually(() => expect(supervisor.welcomes).toHaveLength(1))
      supervisor.channel(1)
      const dialling = dialPort(link, 8080)
      await eventually(() => expect(supervisor.dialled).toHaveLength(1))
      const [connection] = supervisor.dialled
      connection?.write(encodeFrame(FRAME.ready, { host: '127.0.0.1' }))
      const tunnel = await dialling
      for (const [length, end] of [
        [READ_AHEAD - 1000, false],
        [1000, true],
      ] as const) {
        const before = tunnel.readableLength
        const frames = [encodeDataHeader(FRAME.stdout, length), Buffer.alloc(length), end ? encodeDataHeader(FRAME.stdout, 0) : '']
        connection?.write(Buffer.concat(frames.map((part) => Buffer.from(part))))
        await eventually(() => expect(tunnel.readableLength).toBe(before + length))
      }
      tunnel.end()
      for await (const _ of tunnel);
      connection?.write(encodeFrame(FRAME.end, {}))
      expect((await run({ link }, 'true')).code).toBe(0)
    } finally {
      supervisor.end()
    }
  }))
