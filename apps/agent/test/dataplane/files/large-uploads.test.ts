import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { canDetach, Splice } from '@boxoffice/node-http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { eventually } from '../../support/eventually.ts'
import { parentOf, processesWith } from '../../support/processes.ts'
import { SUPERVISOR } from '../../support/sandbox.ts'

const MiB = 1024 * 1024
/** More than what goes by a process of its own, by an odd number of bytes. */
const BODY = randomBytes(48 * MiB + 7)
const profile = { max_upload_bytes: 64 * MiB }

/** Of this program. */
const splices = (): number[] => processesWith('--splice-frames').filter((pid) => parentOf(pid) === process.pid)

/** Sends until the rest is spliced; how much has been sent. */
const untilSpliced = async (sent: ClientRequest): Promise<number> => {
  for (let at = 0; ; at += MiB) {
    if (splices().length === 1) return at
    if (at > BODY.length - 33 * MiB) throw new Error('nothing is spliced')
    await new Promise((resolve) => sent.write(BODY.subarray(at, at + MiB), resolve))
  }
}
const nothingIsSpliced = (): Promise<void> => eventually(() => expect(splices()).toEqual([]))

const begin = (dp: TestDataplane, path: string, options: { agent?: Agent; headers?: Record<string, string | number> } = {}) => {
  const sent = request(`${dp.base}/files/upload?path=${path}`, {
    method: 'POST',
    agent: options.agent,
    headers: { Authorization: `Bearer ${dp.token}`, 'Content-Length': BODY.length, ...options.headers },
  })
  sent.on('error', () => {})
  return sent
}

const answerOf = async (sent: ClientRequest): Promise<{ status: number | undefined; body: Record<string, unknown> }> => {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { status: response.statusCode, body: JSON.parse(String(Buffer.concat(chunks))) as Record<string, unknown> }
}

describe('a large upload', () => {
  let dp: TestDataplane
  beforeEach(async () => {
    dp = await TestDataplane.start({ profile })
  })
  afterEach(() => dp[Symbol.asyncDispose]())

  const host = (path: string): string => join(dp.sandbox.workspacePath, path)

  test('arrives whole, by a process that splices what the agent has not read yet; the next request of the client is served', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (const created of [true, false]) {
      const sent = begin(dp, 'large', { agent })
      const answer = answerOf(sent)
      for (let at = await untilSpliced(sent); at < BODY.length; at += 7 * MiB) {
        sent.write(BODY.subarray(at, at + 7 * MiB))
        await new Promise((resolve) => setImmediate(resolve))
      }
      sent.end()
      expect(await answer).toEqual({ status: 200, body: { path: 'large', size: BODY.length, created } })
      expect((await readFile(host('large'))).equals(BODY)).toBe(true)
      await nothingIsSpliced()
    }
    expect(await answerOf(begin(dp, 'small', { agent, headers: { 'Content-Length': 0 } }).end())).toMatchObject({ status: 200 })
    agent.destroy()
  })

  test('arrives whole however it is sent: at once, several together, and without a length', async () => {
    await Promise.all(
      ['a', 'b', 'c'].map(async (name) => {
        expect((await dp.upload(name, BODY)).status).toBe(200)
        expect((await readFile(host(name))).equals(BODY)).toBe(true)
      }),
    )
    const chunked = request(`${dp.base}/files/upload?path=chunked`, { method: 'POST', headers: { Authorization: `Bearer ${dp.token}` } })
    const answer = answerOf(chunked)
    chunked.end(BODY)
    expect(await answer).toMatchObject({ status: 200, body: { size: BODY.length } })
    expect((await readFile(host('chunked'))).equals(BODY)).toBe(true)
    await nothingIsSpliced()
  })

  test('that breaks off leaves nothing, and the old file whole', async () => {
    await dp.upload('large', 'old')
    const sent = begin(dp, 'large')
    await untilSpliced(sent)
    expect(await dp.sandbox.unfinishedUploads()).toHaveLength(1)
    sent.destroy()
    await nothingIsSpliced()
    await eventually(async () => expect(await dp.sandbox.unfinishedUploads()).toEqual([]))
    expect(await readFile(host('large'), 'utf8')).toBe('old')
    expect((await dp.upload('large', 'new')).status).toBe(200)
  })

  test.each([
    ['that the engine took away', { lost: true, reason: 'oom' } as const, 'SANDBOX_LOST'],
    ['whose supervisor has ended', undefined, 'BACKEND_UNAVAILABLE'],
  ])('into a sandbox %s says so', async (_what, end, code) => {
    const sent = begin(dp, 'large')
    const answer = answerOf(sent)
    await untilSpliced(sent)
    const killed = dp.sandbox.kill()
    // The agent learns of it a moment after its connections have ended.
    if (end !== undefined) setTimeout(() => dp.sandbox.end(end), 100)
    expect(await answer).toMatchObject({ body: { error: { code } } })
    await nothingIsSpliced()
    await killed
    sent.destroy()
  })

  test('whose splice is killed is broken off, and can be tried again', async () => {
    const sent = begin(dp, 'large')
    const answer = answerOf(sent)
    await untilSpliced(sent)
    for (const pid of splices()) process.kill(pid, 'SIGKILL')
    expect(await answer).toMatchObject({ status: 503, body: { error: { code: 'BACKEND_UNAVAILABLE', retryable: true } } })
    await eventually(async () => expect(await dp.sandbox.unfinishedUploads()).toEqual([]))
    expect((await dp.upload('large', BODY)).status).toBe(200)
    sent.destroy()
  })

  test('in a form is not spliced, and what stands behind it in the form does no harm', async () => {
    const form = new FormData()
    form.set('file', new Blob([BODY]), 'file')
    form.set('behind', 'x'.repeat(500_000))
    const response = await dp.upload('form', form)
    expect(await response.json()).toMatchObject({ size: BODY.length })
    expect(response.headers.get('connection')).not.toBe('close')
  })
})

describe('where bodies cannot be spliced', () => {
  let directory: string
  let cannot: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-splice-'))
    cannot = join(directory, 'supervisor')
    await writeFile(cannot, `#!/bin/sh\necho "$1" >>${directory}/asked\nexit 3\n`)
    await chmod(cannot, 0o755)
  })
  afterAll(() => rm(directory, { recursive: true }))

  test.each([
    ['by this kernel', () => cannot],
    ['because there is no such program', () => join(directory, 'none')],
  ])('%s they arrive as others do', async (_why, supervisorPath) => {
    await writeFile(join(directory, 'asked'), '')
    await using dp = await TestDataplane.start({ profile, splicePath: supervisorPath() })
    for (let round = 0; round < 3; round++) {
      expect((await dp.upload('large', BODY)).status).toBe(200)
      expect((await readFile(join(dp.sandbox.workspacePath, 'large'))).equals(BODY)).toBe(true)
    }
    expect(await readFile(join(directory, 'asked'), 'utf8')).toBe(supervisorPath() === cannot ? '--splice-frames\n'.repeat(3) : '')
  })

  test('because a connection is just gone: nothing is thrown, nothing has been taken', async () => {
    const gone = (): Socket => new Socket().destroy()
    const { outcome } = new Splice(SUPERVISOR, { from: gone(), to: gone(), as: 'frames', bytes: 1, patienceMs: 1000 })
    expect(await outcome).toBe('nothing')
  })

  test('what is encrypted stays with the agent', () => {
    const plain = new Socket()
    const request = (socket: Socket): IncomingMessage => ({ readableLength: 0, socket }) as unknown as IncomingMessage
    expect(canDetach(request(plain))).toBe(true)
    expect(canDetach(request(new TLSSocket(plain)))).toBe(false)
  })
})
