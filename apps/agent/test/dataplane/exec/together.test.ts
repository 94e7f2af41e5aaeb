import { Readable } from 'node:stream'
import { extract } from 'tar-stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { LineClient } from '../../support/line-client.ts'
import { type Encoding, TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const LINES = 150_000
const lines = (name: string, count = LINES): string => Array.from({ length: count }, (_, at) => `${name} ${at + 1}\n`).join('')
const command = (name: string, count = LINES): string => `seq -f '${name} %.0f' ${count}`

type Reader = { name: string; read: () => Promise<void> }

const same = (got: string, name: string, count?: number): void => expect(got === lines(name, count), `${name}: every byte`).toBe(true)

/** Leaves what has been sent lying for a while in which others read. */
const dawdle = async (): Promise<void> => {
  await dp.exec({ command: command('meanwhile', 20_000) })
}

const socket = (encoding: Encoding): Reader => ({
  name: encoding,
  read: async () => {
    const client = await ended(new TestSocket(`${dp.wsBase}/exec/ws`, encoding, { token: dp.token })).opened()
    client.start({ command: command(encoding) })
    await client.frame('ready')
    client.ws.pause()
    await dawdle()
    client.ws.resume()
    await client.closed
    same(client.text(), encoding)
  },
})

const file = (name: string): Reader => ({
  name,
  read: async () => {
    expect((await dp.upload(name, lines(name))).status).toBe(200)
    const response = await dp.fetch(`/files/download?path=${name}`)
    await dawdle()
    same(await response.text(), name)
  },
})

const archive: Reader = {
  name: 'archive',
  read: async () => {
    const names = ['one', 'two', 'three'].map((each) => `archive-${each}`)
    for (const name of names) await dp.upload(`archive/${name}`, lines(name))
    const response = await dp.fetch('/files/download?path=archive&archive=tar')
    await dawdle()
    const unpacked = Readable.fromWeb(response.body as never).pipe(extract())
    for await (const entry of unpacked) {
      const chunks: Buffer[] = []
      for await (const chunk of entry) chunks.push(chunk as Buffer)
      same(String(Buffer.concat(chunks)), entry.header.name)
    }
  },
}

const listing: Reader = {
  name: 'listing',
  read: async () => {
    await dp.exec({ command: `mkdir tree && cd tree && seq -f 'listed-%05.0f' 4000 | xargs touch` })
    const response = await dp.fetch('/files?path=tree&limit=5000')
    const { files } = (await response.json()) as { files: { path: string }[] }
    expect(files.map(({ path }) => path)).toEqual(Array.from({ length: 4000 }, (_, at) => `tree/listed-${String(at + 1).padStart(5, '0')}`))
  },
}

const managed: Reader = {
  name: 'managed',
  read: async () => {
    // More than the kernel's buffers take, so that lines wait in the agent.
    const long = `managed${' long'.repeat(20)}`
    const args = ['-c', `read go; ${command(long)}`]
    expect((await dp.post('/processes', { process_id: 'managed', command: '/bin/sh', args })).status).toBe(201)
    const client = await LineClient.open(dp, 'managed')
    client.send('go')
    client.ws.pause()
    await dawdle()
    client.ws.resume()
    await client.closed
    same(client.lines.map((line) => `${line}\n`).join(''), long)
  },
}

const whole: Reader = {
  name: 'whole',
  read: async () => {
    for (let round = 0; round < 5; round++) same(String((await dp.exec({ command: command('whole', 20_000) })).stdout), 'whole', 20_000)
  },
}

// All that comes from sandboxes is read into the same memory: whoever kept a view on it would find another one's bytes there.
test('whoever reads from a sandbox, in whatever way, gets its own bytes while all the others read too', async () => {
  const readers = [socket('binary'), socket('json'), socket('base64'), file('file-a'), file('file-b'), archive, listing, managed, whole]
  await Promise.all(readers.map(({ read }) => read()))
}, 120_000)
