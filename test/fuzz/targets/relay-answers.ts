import assert from 'node:assert/strict'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { duplexPair } from 'node:stream'
import { ReadBuffer } from '../../../apps/broker/src/relay/http1/read-buffers.ts'
import { ResponseReader } from '../../../apps/broker/src/relay/http1/response.ts'
import { mutated } from '../mutate.ts'
import { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

const PROVISIONAL = ['', '', '', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n']
const STATUS = ['200 OK', '200 OK', '204 No Content', '304 Not Modified', '404 Not Found', '507 ', '299']
const HEADERS = ['Connection: keep-alive', 'Keep-Alive: timeout=5', 'X-A: b', 'Connection: close', 'Content-Type: text/plain']
const WORDS = [
  ...['\r\n', '\r', '\n', '\r\n\r\n', '\n\n', ' ', '\t', '\0', ':', ';', ',', '0', '1', '-1', '0x1', 'f', 'chunked', 'gzip, ', '0\r\n\r\n'],
  ...['Content-Length: 5\r\n', 'Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n', 'Transfer-Encoding: identity\r\n', 'X: y\r\n'],
  ...[
    'Connection: close\r\n',
    'Connection: upgrade\r\nUpgrade: x\r\n',
    'Trailer: X\r\n',
    ' folded\r\n',
    'Content-Length: 5, 5\r\n',
    '1;a=b',
  ],
  ...[
    'HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n',
    'HTTP/1.1 102 P\r\nContent-Length: 5\r\n\r\n',
    'HTTP/1.0 200 OK\r\n\r\n',
    '\xff',
  ],
]

const answer = (random: Random): Buffer => {
  const body = 'hello there'.slice(0, random.below(12))
  const lines = Array.from({ length: random.below(3) }, () => `${random.of(HEADERS)}\r\n`).join('')
  const head = `${random.of(PROVISIONAL)}HTTP/1.1 ${random.of(STATUS)}\r\n${lines}`
  switch (random.below(3)) {
    case 0:
      return Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    case 1: {
      const chunks = body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`
      return Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`)
    }
    default:
      return Buffer.from(`${head}\r\n${body}`)
  }
}

type Read = { status: number; headers: string[]; body: string; provisional: number[]; whole: boolean }

/** As the relay reads it; the connection ends in order behind the last chunk. */
const readByRelay = (chunks: readonly Buffer[], method: string): Read => {
  const seen: Read = { status: 0, headers: [], body: '', provisional: [], whole: false }
  let failed = false
  const reader = new ResponseReader(method, {
    head(head, whole) {
      seen.status = head.status
      seen.headers = head.headers
      if (whole === undefined) return
      seen.body = whole.toString('latin1')
      seen.whole = true
    },
    piece(part) {
      assert(!seen.whole, 'a piece behind the end')
      seen.body += part.toString('latin1')
    },
    end() {
      assert(!seen.whole, 'two ends')
      seen.whole = true
    },
    failed() {
      failed = true
    },
    provisional: (status) => seen.provisional.push(status),
  })
  for (const chunk of chunks) {
    if (failed || chunk.length === 0) continue
    const lent = Buffer.from(chunk)
    reader.bytes(lent, ReadBuffer.small())
    lent.fill(0)
  }
  if (failed) return { ...seen, whole: false }
  if (!seen.whole) reader.closed(true)
  return seen
}

/** As Node reads it; undefined for what it does not take. */
const readByNode = (input: Buffer, method: string): Promise<Read | undefined> =>
  new Promise((resolve) => {
    const [ours, theirs] = duplexPair()
    const seen: Read = { status: 0, headers: [], body: '', provisional: [], whole: false }
    const request = httpRequest({ method, createConnection: () => ours, maxHeaderSize: 64 * 1024 })
    const done = (read: Read | undefined): void => {
      request.destroy()
      theirs.destroy()
      resolve(read)
    }
    request.on('error', () => done(undefined)).on('information', ({ statusCode }) => seen.provisional.push(statusCode))
    request.on('upgrade', () => done(undefined))
    request.on('response', (response: IncomingMessage) => {
      seen.status = response.statusCode ?? 0
      // It leaves the blanks behind a value of `Connection`.
      seen.headers = response.rawHeaders.map((text) => text.replace(/[\t ]+$/, ''))
      response.on('data', (part: Buffer) => {
        seen.body += part.toString('latin1')
      })
      response.on('error', () => done(undefined))
      response.on('end', () => done(response.complete ? { ...seen, whole: true } : undefined))
    })
    theirs.resume()
    request.end()
    theirs.end(input)
  })

/** An agent's answer: split anywhere it is the same, and what the relay takes for a whole answer is the same one to Node. */
export default {
  generate: (random) => mutated(random, answer(random), WORDS),
  async check(input) {
    const random = Random.of(input)
    const method = random.of(['GET', 'POST', 'HEAD'])
    const whole = readByRelay([input], method)
    const pieces = readByRelay(random.cut(input), method)
    if (whole.whole) assert.deepEqual(pieces, whole)
    else assert.equal(pieces.whole, false)
    assert(whole.body.length <= input.length)
    if (!whole.whole) return false
    assert.deepEqual(await readByNode(input, method), whole)
    return true
  },
} satisfies FuzzTarget
