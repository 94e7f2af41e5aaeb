import { readAtMost } from '@boxoffice/node-http'
import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import type { HonoRequest } from 'hono'
import type { z } from 'zod'

/** The JSON of a request within the limits of C-80; an empty body reads as `{}`. */
export async function readJson(request: HonoRequest, limit: number): Promise<unknown> {
  const encoding = request.header('content-encoding')
  if (encoding !== undefined && !/^(identity)?$/i.test(encoding.trim()))
    throw new BoxofficeError(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Encoding must be identity, not ${encoding.slice(0, 100)}; send the body as it is`,
    )
  const text = await readText(request, limit)
  const type = request.header('content-type')
  const isJson = type !== undefined && /^application\/([\w.-]+\+)?json *(;|$)/i.test(type)
  if (!isJson && text !== '' && (type !== undefined || text.trim() !== '{}'))
    throw new BoxofficeError(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Type must be application/json${type === undefined ? '' : `, not ${type.slice(0, 100)}`}`,
    )
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch (thrown) {
    throw new BoxofficeError('INVALID_REQUEST', 'body: must be valid JSON', { cause: thrown })
  }
}

/** Checks `value` against its schema; 400 names the first field that is wrong. */
export function validate<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error), {
    details: { field: parsed.error.issues[0]?.path.join('.') || 'body' },
  })
}

async function readText(request: HonoRequest, limit: number): Promise<string> {
  const length = request.header('content-length')
  if (length !== undefined) {
    if (Number(length) > limit) throw tooLarge(limit)
    return length === '0' ? '' : decode(await request.arrayBuffer())
  }
  const { body } = request.raw
  return body === null ? '' : decode(await readAtMost(body, { limit, tooLong: () => tooLarge(limit) }))
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Strictly: replaced bytes would make two ids one [C-08]. */
function decode(bytes: ArrayBuffer | Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch (thrown) {
    throw new BoxofficeError('INVALID_REQUEST', 'body: must be valid UTF-8', { cause: thrown })
  }
}

const tooLarge = (limit: number): BoxofficeError => new BoxofficeError('PAYLOAD_TOO_LARGE', `the body must be at most ${limit} bytes`)
