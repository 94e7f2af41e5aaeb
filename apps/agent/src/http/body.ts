import type { IncomingMessage } from 'node:http'
import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import type { z } from 'zod'

/** For the whole of a body, and for the next byte of it. */
const BODY_WITHIN_MS = 60_000
const BYTE_WITHIN_MS = 30_000

const tooLarge = (limit: number): BoxofficeError => new BoxofficeError('PAYLOAD_TOO_LARGE', `body: at most ${limit} bytes`)

/** The length that the request announces, if it does. */
export const announcedLength = (incoming: IncomingMessage): number | undefined => {
  const text = incoming.headers['content-length']
  return text === undefined ? undefined : Number(text)
}

/** A whole body in memory, up to `limit` bytes. */
export const readBody = (incoming: IncomingMessage, limit: number): Promise<Buffer> => {
  const announced = announcedLength(incoming)
  if (announced !== undefined && announced > limit) return Promise.reject(tooLarge(limit))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const settle = (): void => {
      clearTimeout(timer)
      incoming.off('data', onData)
      incoming.off('end', onEnd)
      incoming.off('close', onClose)
    }
    const fail = (error: BoxofficeError): void => {
      settle()
      reject(error)
    }
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length
      timer.refresh()
      if (bytes > limit) fail(tooLarge(limit))
      else if (performance.now() > until) late()
      else chunks.push(chunk)
    }
    const onEnd = (): void => {
      settle()
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    }
    const onClose = (): void => fail(new BoxofficeError('INVALID_REQUEST', 'body: the connection closed before its end'))
    const late = (): void => fail(new BoxofficeError('TIMEOUT', 'body: not received in time'))
    const until = performance.now() + BODY_WITHIN_MS
    const timer = setTimeout(late, BYTE_WITHIN_MS)
    incoming.on('data', onData)
    incoming.on('end', onEnd)
    incoming.on('close', onClose)
    incoming.on('error', onClose)
  })
}

/** A JSON object of at most `limit` bytes. The type must be JSON; it may be missing where the body is empty or `{}` [C-80]. */
export const readJson = async (incoming: IncomingMessage, limit: number): Promise<Record<string, unknown>> => {
  const type = incoming.headers['content-type']
  if (type !== undefined && !isJson(type)) throw unsupportedType()
  const text = (await readBody(incoming, limit)).toString()
  if (text === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'body: not valid JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BoxofficeError('INVALID_REQUEST', 'body: must be a JSON object')
  if (type === undefined && Object.keys(value).length > 0) throw unsupportedType()
  return value as Record<string, unknown>
}

const isJson = (type: string): boolean => type === 'application/json' || /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)

const unsupportedType = (): BoxofficeError => new BoxofficeError('UNSUPPORTED_MEDIA_TYPE', 'Content-Type: must be application/json')

/** Checks a value against its schema; the message names the first bad field. */
export const parse = <T extends z.ZodType>(schema: T, value: unknown): z.infer<T> => {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
}
