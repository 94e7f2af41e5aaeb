import { type Readable, Transform } from 'node:stream'
import { BoxofficeError } from '@boxoffice/protocol'
import { lookWhileGrowing } from '../../host/disk-floor.ts'
import { UPLOAD_STALL_MS } from '../../http/responses/stalled-client.ts'
import type { UploadLimit } from '../../http/upload-limit.ts'

/**
 * Passes a body on up to `limit`; fails when there is more, when the disk is low (`fits` throws), when it breaks off, or when the
 * client sends nothing for 120 s. Its owner destroys it.
 */
export const limitedBody = (body: Readable, limit: UploadLimit, fits: () => void): Transform => {
  let bytes = 0
  const look = lookWhileGrowing(fits)
  const gate = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      timer.refresh()
      bytes += chunk.length
      if (bytes > limit.bytes) return done(limit.refused())
      try {
        look(bytes)
      } catch (error) {
        return done(error as Error)
      }
      done(null, chunk)
    },
  })
  const timer = setTimeout(() => {
    // What has come and is not taken is the sandbox's slowness, not the client's.
    if (gate.writableLength + gate.readableLength > 0) timer.refresh()
    else gate.destroy(new BoxofficeError('TIMEOUT', 'body: not received in time'))
  }, UPLOAD_STALL_MS)
  gate.once('finish', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
  body.once('close', () => {
    if (!body.readableEnded) gate.destroy(new BoxofficeError('INVALID_REQUEST', 'body: the connection closed before its end'))
  })
  body.pipe(gate)
  return gate
}
