import { createHash, randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type SdkSession, startSdkSession } from './support/sdk-session.ts'

let on: SdkSession
beforeEach(async () => {
  on = await startSdkSession('direct')
})
afterEach(() => on[Symbol.asyncDispose]())

const MIB = 1024 * 1024
const CONTENT = randomBytes(8 * MIB)
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const read = async (stream: ReadableStream<Uint8Array>): Promise<Buffer> => Buffer.concat(await Array.fromAsync(stream))

test('[4-104] a file as a stream goes on over connections that break, byte for byte', async () => {
  await on.session.files.upload('large', CONTENT)
  on.proxy.cutAfter(2 * MIB)
  const { stream, size } = await on.session.files.stream('large')
  expect(size).toBe(CONTENT.length)
  expect(sha256(await read(stream))).toBe(sha256(CONTENT))
  expect(on.asked('GET /files/download')).toBeGreaterThan(2)
  const { stream: part } = await on.session.files.stream('large', { range: { start: 100, end: 5 * MIB } })
  expect(sha256(await read(part))).toBe(sha256(CONTENT.subarray(100, 5 * MIB + 1)))
})

test('a file that changes while its stream is away is not joined to the old one', async () => {
  const { files } = on.session
  await files.upload('large', CONTENT)
  on.proxy.cutAfter(MIB)
  const { stream } = await files.stream('large')
  const reader = stream.getReader()
  await reader.read()
  await files.upload('large', randomBytes(CONTENT.length))
  const rest = async (): Promise<void> => {
    while (!(await reader.read()).done);
  }
  await expect(rest()).rejects.toMatchObject({ code: 'PRECONDITION_FAILED' })
})

test('an archive over a connection that breaks ends with a ConnectionError', async () => {
  await on.session.files.upload('a/large', CONTENT)
  on.proxy.cutAfter(MIB)
  const { stream } = await on.session.files.downloadArchive('a')
  await expect(read(stream)).rejects.toMatchObject({ code: 'CONNECTION_FAILED', name: 'ConnectionError' })
})

test('more commands than may run at once wait for their turn', async () => {
  const codes = Array.from({ length: 40 }, (_, at) => at)
  const results = await Promise.all(codes.map((code) => on.session.exec(`sleep 0.2; exit ${code}`)))
  expect(results.map(({ exitCode }) => exitCode)).toEqual(codes)
})

test('what is there, and what is not', async () => {
  const { files } = on.session
  await files.upload('a/b', 'x')
  await files.upload('a/c', 'x')
  expect([await files.exists('a'), await files.exists('a/b'), await files.exists('z'), await files.exists('a/b/c')]).toEqual([
    ...[true, true, false, false],
  ])
  await expect(files.delete('z')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
})
