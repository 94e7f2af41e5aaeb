import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type FastIo, setFastIo } from '@boxoffice/node-http'
import { expect, onTestFinished, test } from 'vitest'
import { giveBuffer, POOLED_BYTES, takeBuffer } from '../../src/fast-io/buffer-pool.ts'
import { readAhead } from '../../src/fast-io/read-ahead.ts'
import { BodyWriter } from '../../src/http/responses/body-writer.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import { run } from '../host/support/exec.ts'
import { Host, silent } from '../host/support/host.ts'
import { TestDataplane } from '../support/dataplane.ts'
import { processesWith } from '../support/processes.ts'

const switchOff = (trick: keyof FastIo): void => {
  setFastIo({ [trick]: false })
  onTestFinished(() => setFastIo({}))
}

const MIB = 1024 * 1024

test('splice off: a large upload arrives through the agent, and its connection stays', async () => {
  switchOff('splice')
  await using dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * MIB } })
  const body = randomBytes(48 * MIB + 7)
  const response = await dp.upload('large', body)
  expect([response.status, response.headers.get('connection')]).toEqual([200, 'keep-alive'])
  expect(await dp.exec({ command: 'wc -c < large' })).toMatchObject({ stdout: `${body.length}\n` })
})

test('buffer pool off: each message has memory of its own; on: what was given back is taken again', () => {
  const buffer = takeBuffer()
  giveBuffer(buffer)
  expect(takeBuffer()).toBe(buffer)
  switchOff('bufferPool')
  const other = takeBuffer()
  giveBuffer(other)
  expect(takeBuffer()).not.toBe(other)
  expect(takeBuffer().length).toBe(POOLED_BYTES)
})

test('buffer pool: a client that leaves has its memory given back once, so no two messages share it', async () => {
  const left = Promise.withResolvers<void>()
  const server = createServer((_incoming: IncomingMessage, outgoing: ServerResponse) => {
    const blocked = Promise.withResolvers<void>()
    const body = new BodyWriter(outgoing, blocked.resolve)
    const piece = Buffer.alloc(POOLED_BYTES, 'x')
    for (let i = 0; i < 64; i++) body.write(piece)
    void blocked.promise.then(() => sent.destroy())
    outgoing.on('close', () => {
      body.write(piece)
      body.flush()
      setImmediate(left.resolve)
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const sent = get({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  sent.on('error', () => {})
  await left.promise
  const taken = Array.from({ length: 100 }, takeBuffer)
  expect(new Set(taken).size).toBe(100)
})

test('shared reads off: output of a command is the same', async () => {
  switchOff('sharedReads')
  await using dp = await TestDataplane.start()
  const [first, second] = await Promise.all(
    ['a', 'b'].map((letter) => dp.exec({ command: `head -c 500000 /dev/zero | tr '\\0' ${letter}` })),
  )
  expect([first?.stdout === 'a'.repeat(500_000), second?.stdout === 'b'.repeat(500_000)]).toEqual([true, true])
})

test.each([true, false])('read ahead %s: an archive is the same', async (on) => {
  if (!on) switchOff('readAhead')
  await using dp = await TestDataplane.start()
  for (let i = 0; i < 20; i++) await writeFile(join(dp.sandbox.workspacePath, `f${i}`), `content ${i}`)
  const response = await dp.fetch('/files/download?path=.&archive=tar')
  const archive = Buffer.from(await response.arrayBuffer()).toString('latin1')
  for (let i = 0; i < 20; i++) expect(archive).toContain(`content ${i}\0`)
})

test('read ahead: items come in their order, four are read before their turn, and a reading that fails rejects at its turn alone', async () => {
  const begun: number[] = []
  const items = readAhead(
    Array.from({ length: 8 }, (_, number) => ({ number })),
    async ({ number }) => {
      begun.push(number)
      if (number === 2) throw new Error('gone')
      return number
    },
  )
  const first = items.next().value
  expect([first?.number, begun]).toEqual([0, [0, 1, 2, 3, 4]])
  const outcomes = await Promise.allSettled([...items].map(({ ahead }) => ahead))
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', ...Array.from({ length: 5 }, () => 'fulfilled')])
})

test('read ahead off: nothing is read before its turn', () => {
  switchOff('readAhead')
  const begun: number[] = []
  const items = readAhead([{ number: 0 }, { number: 1 }], ({ number }) => {
    begun.push(number)
    return undefined
  })
  items.next()
  expect(begun).toEqual([0])
})

test.runIf(process.getuid?.() === 0).each(['prefork', 'prewarm'] as const)('%s off: sandboxes are made at the request', async (trick) => {
  switchOff(trick)
  await using host = await Host.start(({ path, installId }) =>
    createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }),
  )
  for (const name of ['first', 'second']) {
    const sandbox = await host.ensure(name)
    expect(await run(sandbox, 'echo there')).toMatchObject({ stdout: 'there\n', code: 0 })
  }
  if (trick === 'prewarm') expect(await readdir(join(host.dataDirectory, 'prepared'))).toEqual([])
  if (trick === 'prefork') expect(processesWith(host.dataDirectory).filter((pid) => processesWith('--prefork').includes(pid))).toEqual([])
})
