import { describe, expect, test } from 'vitest'
import { ReadBuffer } from '../../../src/relay/http1/read-buffers.ts'
import { ResponseReader } from '../../../src/relay/http1/response.ts'

/** Reads what an agent sends, each chunk from a buffer that is overwritten afterwards, as those of connections are. */
const read = (chunks: readonly Buffer[], method = 'GET', whole?: boolean) => {
  const seen = { status: 0, headers: [] as string[], body: '', ended: false, failed: '', provisional: [] as number[] }
  const reader = new ResponseReader(method, {
    head: (head, body) => {
      seen.status = head.status
      seen.headers = head.headers
      if (body === undefined) return
      seen.body = String(body)
      seen.ended = true
    },
    piece: (part) => {
      seen.body += String(part)
    },
    end: () => {
      seen.ended = true
    },
    failed: (cause) => {
      seen.failed = (cause as Error).message
    },
    provisional: (status) => seen.provisional.push(status),
  })
  for (const chunk of chunks) {
    if (seen.failed !== '') break
    const copy = Buffer.from(chunk)
    reader.bytes(copy, ReadBuffer.small())
    copy.fill(0)
  }
  if (whole !== undefined) reader.closed(whole)
  return seen
}
const readText = (text: string, method?: string, whole?: boolean) => read([Buffer.from(text, 'latin1')], method, whole)

describe('an answer of an agent', () => {
  test.each([
    ['with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nX-A: \t b \r\n\r\nhello there'],
    ['in chunks', 'HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n006;a=b\r\n there\r\n0\r\n\r\n'],
    ['behind a 100', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 11\r\n\r\nhello there'],
  ])('%s is the same, cut at any byte', (_name, text) => {
    const bytes = Buffer.from(text)
    for (let at = 0; at <= bytes.length; at++)
      expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toMatchObject({ status: 200, body: 'hello there', ended: true, failed: '' })
    expect(read([...bytes].map((byte) => Buffer.of(byte)))).toMatchObject({ body: 'hello there', ended: true, failed: '' })
  })

  test.each([
    ['GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n'],
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'],
    ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ])('%s has no body: %j', (method, text) => {
    expect(readText(text, method)).toMatchObject({ body: '', ended: true, failed: '' })
    expect(readText(`${text}x`, method).failed).toBe('an answer longer than it said')
  })

  test('without a length ends with its connection, when that ends in order', () => {
    const text = 'HTTP/1.1 200 OK\r\n\r\nhello'
    expect(readText(text)).toMatchObject({ body: 'hello', ended: false, failed: '' })
    expect(readText(text, 'GET', true)).toMatchObject({ body: 'hello', ended: true, failed: '' })
    expect(readText(text, 'GET', false)).toMatchObject({ ended: false, failed: 'the connection was closed' })
  })

  test.each([
    ['a second answer behind it', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb'],
    ['a second answer behind the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na'],
    ['a length that is a list', 'HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na'],
    ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na'],
    ['a length beside an encoding', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['another encoding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['two encodings', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\na'],
    ['a folded header', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
    ['a bare line feed in a header', 'HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 1\r\n\r\na'],
    ['a bare carriage return in a header', 'HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 0\r\n\r\n'],
    ['a NUL in a header', 'HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n'],
    ['another version', 'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['no status', 'HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n'],
    ['an upgrade that nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['a chunk with a sign', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n'],
    ['a chunk in hexadecimal with its prefix', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n'],
    ['a chunk that ends in a bare line feed', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n'],
    ['a chunk longer than it said', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n'],
    ['a chunk with a blank behind its size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n'],
    ['an encoding with a tab behind it', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n1\r\na\r\n0\r\n\r\n'],
    [
      'a 1xx before it that ends the connection',
      'HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
    ],
    ['a trailer', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n'],
    ['a size line without end', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;${'a'.repeat(300)}`],
    ['a head without end', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(40_000)}`],
  ])('with %s is none', (_name, text) => {
    const seen = readText(text)
    expect(seen.failed).not.toBe('')
    expect(seen.ended).toBe(false)
  })

  test('keeps a no-break space at the end of a header', () => {
    expect(readText('HTTP/1.1 200 OK\r\nX-A: b\xa0 \t\r\nContent-Length: 0\r\n\r\n').headers.slice(0, 2)).toEqual(['X-A', 'b\xa0'])
  })

  test('that breaks off is not whole', () => {
    for (const text of [
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    ])
      expect(readText(text, 'GET', true)).toMatchObject({ body: 'half', ended: false, failed: 'the connection was closed' })
  })
})

describe('a buffer that is read into', () => {
  const fill = (buffer: ReadBuffer) => buffer.next(buffer.bytes.length)

  test('is used again, unless somebody holds it', () => {
    const buffer = ReadBuffer.small()
    expect(buffer.next(10)).toBe(buffer)
    buffer.hold()
    expect(buffer.next(10)).not.toBe(buffer)
  })

  test('grows for a stream and shrinks for what comes now and then', () => {
    const large = fill(ReadBuffer.small())
    expect(large.bytes.length).toBeGreaterThan(ReadBuffer.small().bytes.length)
    expect(large.next(100_000)).toBe(large)
    expect(large.next(10).bytes.length).toBe(ReadBuffer.small().bytes.length)
  })

  test('goes to nobody else before the last one has let it go, and only once', () => {
    const first = fill(ReadBuffer.small())
    first.hold()
    first.hold()
    const second = first.next(100_000)
    expect(second.bytes).not.toBe(first.bytes)
    first.release()
    const third = ReadBuffer.large()
    expect(third.bytes).not.toBe(first.bytes)
    first.release()
    first.leave()
    const later = [ReadBuffer.large(), ReadBuffer.large()]
    expect(later.filter(({ bytes }) => bytes === first.bytes)).toHaveLength(1)
  })
})
