import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../apps/agent/test/support/eventually.ts'
import { parentOf, processesWith } from '../../apps/agent/test/support/processes.ts'
import { SUPERVISOR } from '../../apps/agent/test/support/sandbox.ts'
import { createTestIssuer } from '../../apps/agent/test/support/tokens.ts'
import type { UploadSpliceOptions } from '../../apps/broker/src/relay/upload-splice.ts'
import { startCapture } from '../../apps/broker/test/support/capture-dataplane.ts'
import { startRelayFront } from './relay-front.ts'

const MiB = 1024 * 1024
/** More than what passes by the broker, by an odd number of bytes. */
const BODY = randomBytes(48 * MiB + 7)

const splices = (): number[] => processesWith('--splice-bytes').filter((pid) => parentOf(pid) === process.pid)
const nothingIsSpliced = (): Promise<void> => eventually(() => expect(splices()).toEqual([]))

const names = { sandboxId: 'sbx_splicing', sessionId: 'ssn_splicing' }
const issuer = createTestIssuer(names)
let agent: Awaited<ReturnType<typeof startCapture>>
let token: string
beforeAll(async () => {
  agent = await startCapture()
  token = await issuer.sign()
})
afterAll(() => agent.close())

/** An upload through a relay of its own to an agent that does as it is told. */
const begin = async (
  agentDoes: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  options: UploadSpliceOptions = { path: SUPERVISOR },
): Promise<ClientRequest> => {
  agent.answers.raw = agentDoes
  const sandbox = { id: names.sandboxId, sessionId: names.sessionId } as never
  const front = await startRelayFront({ sandbox, issuer, origin: agent.url, corsOrigins: [] }, options)
  const sent = request(`${front.base}/files/upload?path=x`, {
    ...{ method: 'POST', agent: false },
    headers: { Authorization: `Bearer ${token}`, 'Content-Length': BODY.length },
  })
  sent.on('error', () => {})
  onTestFinished(async () => {
    sent.destroy()
    await front.close()
    await nothingIsSpliced()
  })
  return sent
}

/** Sends until the rest passes by the broker; how much has been sent. */
const untilSpliced = async (sent: ClientRequest): Promise<number> => {
  for (let at = 0; ; at += MiB) {
    if (splices().length === 1) return at
    if (at > BODY.length - 33 * MiB) throw new Error('nothing is spliced')
    await new Promise((resolve) => sent.write(BODY.subarray(at, at + MiB), resolve))
  }
}

const answerOf = async (sent: ClientRequest): Promise<{ status: number | undefined; connection: string | undefined; text: string }> => {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return { status: response.statusCode, connection: response.headers.connection, text }
}

const answerWithHash = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
  const hash = createHash('sha256')
  for await (const chunk of incoming) hash.update(chunk as Buffer)
  outgoing.end(hash.digest('hex'))
}
const HASH = createHash('sha256').update(BODY).digest('hex')

test('[23] the rest of a large upload passes by the broker, and is the same', async () => {
  const sent = await begin(answerWithHash)
  const answer = answerOf(sent)
  sent.write(BODY.subarray(await untilSpliced(sent)))
  sent.end()
  expect(await answer).toEqual({ status: 200, connection: 'close', text: HASH })
  await nothingIsSpliced()
})

test.each([
  ['there is no such program', '/nowhere/supervisor'],
  // It ends with 2 for what it does not know, before it has taken anything.
  ['the program is an older one', 'older'],
])('where %s it arrives as others do', async (_what, name) => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-splice-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const older = join(directory, 'supervisor')
  await writeFile(older, '#!/bin/sh\nexit 2\n', { mode: 0o755 })
  const sent = await begin(answerWithHash, { path: name === 'older' ? older : name })
  const answer = answerOf(sent)
  sent.end(BODY)
  expect(await answer).toMatchObject({ status: 200, text: HASH })
})

test("an agent's answer before the end reaches the client and ends it", async () => {
  const answerNow = Promise.withResolvers<void>()
  const sent = await begin((incoming, outgoing) => {
    incoming.resume()
    void answerNow.promise.then(() => outgoing.writeHead(507, { connection: 'close' }).end('full'))
  })
  const answer = answerOf(sent)
  await untilSpliced(sent)
  answerNow.resolve()
  expect(await answer).toEqual({ status: 507, connection: 'close', text: 'full' })
  await nothingIsSpliced()
})

test('a client that leaves takes its upload with it', async () => {
  const left = Promise.withResolvers<void>()
  const sent = await begin((incoming) => {
    incoming.resume().once('close', () => left.resolve())
  })
  await untilSpliced(sent)
  sent.destroy()
  await left.promise
  await nothingIsSpliced()
})

test.each([
  ['an agent that dies', (incoming: IncomingMessage) => void incoming.destroy()],
  ['a process that is killed', () => splices().forEach((pid) => void process.kill(pid, 'SIGKILL'))],
])('%s: 503, to be tried again', async (_who, harm) => {
  const there = Promise.withResolvers<IncomingMessage>()
  const sent = await begin((incoming) => there.resolve(incoming.resume()))
  const answer = answerOf(sent)
  await untilSpliced(sent)
  harm(await there.promise)
  const { status, text } = await answer
  expect([status, (JSON.parse(text) as { error: object }).error]).toEqual([503, expect.objectContaining({ code: 'BACKEND_UNAVAILABLE' })])
  await nothingIsSpliced()
})

test('a client that sends nothing any more is given up', async () => {
  const sent = await begin((incoming) => void incoming.resume(), { path: SUPERVISOR, patienceMs: 500 })
  const answer = answerOf(sent)
  // Whether the process is seen or has given up already, it is over soon.
  await new Promise((resolve) => sent.write(BODY.subarray(0, 4 * MiB), resolve))
  expect(await answer).toMatchObject({ status: 503 })
  await nothingIsSpliced()
})
