import type { Parse } from './read-head.ts'

/** The head of a request as it came; names of headers in lower case. */
export type HttpHead = { method: string; target: string; version: string; headers: readonly (readonly [name: string, value: string])[] }

/** Thrown for what is no HTTP/1 request; the text says what. */
export class BadHead extends Error {}

const END = '\r\n\r\n'
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) (HTTP\/1\.[01])$/
/** No folded lines, no space before the colon, no control characters: parsers do not agree on them. */
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/

/** Reads the head of one request and consumes it. */
export const parseHttpHead: Parse<HttpHead> = (bytes) => {
  const end = bytes.indexOf(END)
  if (end === -1) return undefined
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const [, method, target, version] = REQUEST_LINE.exec(first) ?? []
  if (method === undefined || target === undefined || version === undefined) throw new BadHead('the first line is no request of HTTP/1')
  const headers = lines.map((line) => {
    const [, name, value] = FIELD.exec(line) ?? []
    if (name === undefined || value === undefined) throw new BadHead('a line of the head is no header')
    return [name.toLowerCase(), value] as const
  })
  return { value: { method, target, version, headers }, used: end + END.length }
}

/** The head as bytes. */
export const httpHeadBytes = ({ method, target, version, headers }: HttpHead): Buffer =>
  Buffer.from([`${method} ${target} ${version}`, ...headers.map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n'), 'latin1')
