import type { Reader } from './agent-connection.ts'
import type { ReadBuffer } from './read-buffers.ts'
import { ResponseBody } from './response-body.ts'
import { MAX_HEAD_BYTES, parseHead, type ResponseHead, saysClose } from './response-head.ts'

export type ResponseHandlers = {
  /** `whole`: the body, when all of it has come with the head; neither `piece` nor `end` follows then. */
  head(head: ResponseHead, whole: Buffer | undefined, buffer: ReadBuffer): void
  /** Part of the body, overwritten after the call unless the buffer is held. */
  piece(part: Buffer, buffer: ReadBuffer): void
  end(): void
  /** The connection is lost, or what came is no response. Also after `end`, when the connection closes. */
  failed(cause: unknown): void
  /** 100 to 199, which announce a response. */
  provisional(status: number): void
  /** What came behind the head of a 101, which is the response then. */
  upgraded?(head: ResponseHead, rest: Buffer): void
}

const END_OF_HEAD = '\r\n\r\n'
const NOTHING: Buffer = Buffer.alloc(0)

/** One response of an agent. */
export class ResponseReader implements Reader {
  readonly #method: string
  readonly #handlers: ResponseHandlers
  #partial = NOTHING
  #body: ResponseBody | undefined
  head: ResponseHead | undefined

  constructor(method: string, handlers: ResponseHandlers) {
    this.#method = method
    this.#handlers = handlers
  }

  bytes(chunk: Buffer, buffer: ReadBuffer): void {
    try {
      if (this.#body === undefined) this.#readHead(chunk, buffer)
      else this.#readBody(this.#body, chunk, buffer)
    } catch (thrown) {
      this.#handlers.failed(thrown)
    }
  }

  closed(whole: boolean): void {
    if (whole && this.#body?.endsWithConnection === true) this.#handlers.end()
    else this.#handlers.failed(new Error('the connection was closed'))
  }

  #readHead(chunk: Buffer, buffer: ReadBuffer): void {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    const end = bytes.indexOf(END_OF_HEAD)
    if (end === -1 || end > MAX_HEAD_BYTES) {
      if (bytes.length > MAX_HEAD_BYTES) throw new Error('an answer with a head that is too long')
      this.#partial = Buffer.from(bytes)
      return
    }
    this.#partial = NOTHING
    const head = parseHead(bytes.toString('latin1', 0, end), this.#method)
    const rest = bytes.subarray(end + END_OF_HEAD.length)
    if (head.status === 101 && this.#handlers.upgraded !== undefined) return this.#handlers.upgraded(head, rest)
    if (head.status < 200) {
      if (head.status === 101) throw new Error('an upgrade that nobody asked for')
      if (saysClose(head)) throw new Error('a connection that ends before the answer')
      this.#handlers.provisional(head.status)
      if (rest.length > 0) this.#readHead(rest, buffer)
      return
    }
    this.head = head
    const body = new ResponseBody(head.framing)
    this.#body = body
    if (body.ended && rest.length === 0) return this.#handlers.head(head, NOTHING, buffer)
    if (head.framing.type === 'length' && rest.length === head.framing.bytes) return this.#handlers.head(head, rest, buffer)
    this.#handlers.head(head, undefined, buffer)
    if (rest.length > 0) this.#readBody(body, rest, buffer)
  }

  #readBody(body: ResponseBody, bytes: Buffer, buffer: ReadBuffer): void {
    body.push(bytes, (part) => this.#handlers.piece(part, buffer))
    if (body.ended) this.#handlers.end()
  }
}
