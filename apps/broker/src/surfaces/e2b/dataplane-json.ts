import { readAtMost } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { z } from 'zod'
import type { DataplaneRequest, SessionDataplane } from '../../dataplane/client.ts'

const MAX_BYTES = 16 * 1024 * 1024
const tooLong = (): Error => new BoxofficeError('PAYLOAD_TOO_LARGE', `the response is longer than ${MAX_BYTES} bytes`)

/** The JSON of a response of the dataplane. */
export async function readJsonOf<T>(dataplane: SessionDataplane, request: DataplaneRequest, schema: z.ZodType<T>): Promise<T> {
  const body = await readAtMost(await dataplane.request(request), { limit: MAX_BYTES, tooLong })
  return schema.parse(JSON.parse(body.toString()))
}
