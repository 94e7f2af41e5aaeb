import { BoxofficeError } from '../base/errors.ts'

/** For any encoding that the runtime knows; refuses another by its name. */
export const textDecoder = (encoding = 'utf-8'): TextDecoder => {
  try {
    return new TextDecoder(encoding)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', `there is no encoding ${JSON.stringify(encoding)}`, { cause })
  }
}

/** Runtimes encode UTF-8 only; UTF-16 is the other one that text is made of. */
export const toBytes = (text: string, encoding = 'utf-8'): Uint8Array => {
  const { encoding: name } = textDecoder(encoding)
  if (name === 'utf-8') return new TextEncoder().encode(text)
  if (name !== 'utf-16le') throw new BoxofficeError('UNSUPPORTED', `text is written as utf-8 or utf-16le, not as ${name}`, { status: 501 })
  const view = new DataView(new ArrayBuffer(text.length * 2))
  for (let at = 0; at < text.length; at++) view.setUint16(at * 2, text.charCodeAt(at), true)
  return new Uint8Array(view.buffer)
}

/**
 * Lines `start` to `end`, both included and counted from 1, with the line ends between them as they are; without both the whole text.
 * What follows the last line end is a line too, if only an empty one.
 */
export const linesBetween = (text: string, start?: number, end?: number): string => {
  if (start === undefined && end === undefined) return text
  const lines = text.split(/(?<=\n)/)
  if (text.endsWith('\n')) lines.push('')
  const to = Math.max(0, Math.min(lines.length, end ?? lines.length))
  const part = lines.slice(Math.max(1, start ?? 1) - 1, to).join('')
  return to < lines.length ? part.replace(/\r?\n$/, '') : part
}
