import { HEAD_LIMIT_BYTES, type Parse } from './read-head.ts'

/** How a connection begins: with TLS, and the name that it shows there if any; or with something else. */
export type Opening = { isTls: true; sni: string | undefined } | { isTls: false }

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const RECORD_HEADER = 5
const MESSAGE_HEADER = 4
/** RFC 8446 §5.1. */
const RECORD_LIMIT = 16_384
const SERVER_NAME = 0
const HOST_NAME = 0

/** Peeks at how a connection begins; no byte is consumed. What begins like TLS and goes on otherwise is not TLS. */
export const peekOpening: Parse<Opening> = (bytes) => {
  const hello = helloOf(bytes)
  if (hello === 'more') return undefined
  return { value: hello === undefined ? { isTls: false } : openingOf(hello), used: 0 }
}

/** The body of the ClientHello, put together from its records; `more` where it is not complete, undefined where it is none. */
function helloOf(bytes: Buffer): Buffer | 'more' | undefined {
  const pieces: Buffer[] = []
  let have = 0
  for (let at = 0; ; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return undefined
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return undefined
    if (bytes.length < at + RECORD_HEADER) return 'more'
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > RECORD_LIMIT) return undefined
    const piece = bytes.subarray(at + RECORD_HEADER, at + RECORD_HEADER + length)
    pieces.push(piece)
    have += piece.length
    at += RECORD_HEADER + length
    const message = pieces.length === 1 ? piece : Buffer.concat(pieces, have)
    if (have > 0 && message[0] !== CLIENT_HELLO) return undefined
    if (have >= MESSAGE_HEADER) {
      const size = message.readUIntBE(1, 3)
      if (size > HEAD_LIMIT_BYTES) return undefined
      if (have >= MESSAGE_HEADER + size) return message.subarray(MESSAGE_HEADER, MESSAGE_HEADER + size)
    }
    if (bytes.length < at) return 'more'
  }
}

function openingOf(hello: Buffer): Opening {
  try {
    const read = new Reader(hello)
    read.skip(2 + 32)
    read.vector(1)
    read.vector(2)
    read.vector(1)
    const extensions = read.isEmpty ? undefined : read.vector(2)
    return read.isEmpty ? { isTls: true, sni: extensions && sniOf(extensions) } : { isTls: false }
  } catch {
    return { isTls: false }
  }
}

/** Throws for two names, two lists of names, and anything after them: readers would not agree which one counts. */
function sniOf(extensions: Reader): string | undefined {
  let found: string | undefined
  while (!extensions.isEmpty) {
    const type = extensions.uint(2)
    const body = extensions.vector(2)
    if (type !== SERVER_NAME) continue
    const list = body.vector(2)
    if (found !== undefined || !body.isEmpty || list.uint(1) !== HOST_NAME) throw new RangeError('server_name')
    found = list.vector(2).text
    if (!list.isEmpty || found === '') throw new RangeError('server_name')
  }
  return found
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#at === this.#bytes.length
  }

  get text(): string {
    return this.#bytes.toString('latin1')
  }

  skip(length: number): void {
    this.#at += length
    if (this.#at > this.#bytes.length) throw new RangeError('truncated')
  }

  uint(length: number): number {
    const value = this.#bytes.readUIntBE(this.#at, length)
    this.#at += length
    return value
  }

  /** What follows a length of `size` bytes. */
  vector(size: number): Reader {
    const length = this.uint(size)
    const from = this.#at
    this.skip(length)
    return new Reader(this.#bytes.subarray(from, from + length))
  }
}
