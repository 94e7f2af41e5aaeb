import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { until } from '../../support/processes.ts'

const MiB = 1024 * 1024
const OUTPUT_BYTES = 16 * MiB
const CLIENTS = 34
/** In JSON a NUL has six bytes: each answer is 192 MiB. */
const REQUEST = { command: `echo ran >> ran; head -c ${OUTPUT_BYTES} /dev/zero; head -c ${OUTPUT_BYTES} /dev/zero >&2` }

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** Asks for an answer and reads a refusal whole, of another answer only what comes first. */
const ask = async (request: object): Promise<{ socket: Socket; status: number; text: string }> => {
  const { hostname, port, pathname } = new URL(`${dp.base}/exec`)
  const socket = connect(Number(port), hostname).on('error', () => {})
  const body = JSON.stringify(request)
  const head = [`POST ${pathname} HTTP/1.1`, `Host: ${hostname}:${port}`, `Authorization: Bearer ${dp.token}`]
  socket.write([...head, 'Content-Type: application/json', `Content-Length: ${body.length}`, '', body].join('\r\n'))
  let text = ''
  await new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      text += String(chunk)
      if (text.startsWith('HTTP/1.1 200') ? !text.includes('\r\n\r\n') : !text.endsWith('}')) return
      socket.pause()
      resolve()
    })
  })
  return { socket, status: Number(text.slice(9, 12)), text }
}

test('34 clients that do not read answers of 192 MiB: what does not fit the budget is 429 and has not run', {
  tags: ['C-63'],
  timeout: 180_000,
}, async () => {
  await dp.exec({ command: 'true' })
  const before = process.memoryUsage().rss
  const asked = await Promise.all(Array.from({ length: CLIENTS }, () => ask({ ...REQUEST, max_output_bytes: OUTPUT_BYTES })))
  const grown = process.memoryUsage().rss - before
  const answered = asked.filter(({ status }) => status === 200)
  const refused = asked.filter(({ status }) => status === 429)
  expect(answered.length).toBeGreaterThanOrEqual(4)
  expect(answered.length + refused.length).toBe(CLIENTS)
  expect(refused.length).toBeGreaterThan(CLIENTS / 2)
  for (const { text } of refused) expect(text).toContain('"limit":"buffered_answers"')
  for (const { text } of answered) expect(text.toLowerCase()).toContain('transfer-encoding: chunked')
  expect(grown).toBeLessThan(600 * MiB)
  expect((await readFile(join(dp.sandbox.workspacePath, 'ran'), 'utf8')).split('\n')).toHaveLength(answered.length + 1)

  for (const { socket } of asked) socket.destroy()
  await until('the budget is free', () => dp.answers.held === 0)
})

test('a large answer is complete, in pieces, and says whether it is lossy', { tags: ['C-63'], timeout: 120_000 }, async () => {
  const bytes = 4 * MiB
  const twice = { command: `head -c ${bytes} /dev/zero; head -c ${bytes} /dev/zero >&2`, max_output_bytes: bytes }
  const nul = await dp.post('/exec', twice)
  expect(nul.headers.get('content-length')).toBeNull()
  const result = (await nul.json()) as Record<string, unknown>
  expect((result.stdout as string).length).toBe(bytes)
  expect(/^\0*$/.test(result.stderr as string)).toBe(true)
  expect(result).toMatchObject({ exit_code: 0, lossy: false, stdout_truncated: false, stderr_bytes: bytes })

  const command = 'for i in $(seq 20000); do printf "aü€😀\\n"; done; printf "\\377"; seq 100000 >&2'
  const text = `${'aü€😀\n'.repeat(20_000)}\ufffd`
  const mixed = await dp.exec({ command })
  expect(mixed.stdout === text).toBe(true)
  expect((mixed.stderr as string).endsWith('99999\n100000\n')).toBe(true)
  expect(mixed.lossy).toBe(true)

  const encoded = await dp.exec({ command, encoding: 'base64' })
  expect(Buffer.from(encoded.stdout as string, 'base64').equals(Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.of(0xff)]))).toBe(
    true,
  )
  await until('the budget is free', () => dp.answers.held === 0)
})
