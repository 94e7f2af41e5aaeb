import type { Session } from '@boxoffice/client'
import { BoxofficeError } from '@boxoffice/protocol'
import { BOUNDS, requireFileSize } from './bounds.ts'
import { rootOf } from './place.ts'

type Content = { bytes: Uint8Array<ArrayBuffer>; etag: string | undefined }

/** A whole file. Rejects with PAYLOAD_TOO_LARGE for one of more than `BOUNDS.fileBytes`. */
export const readBytes = async ({ files }: Session, path: string, signal: AbortSignal): Promise<Content> => {
  const { stream, size, etag } = await files.stream(path, { ...rootOf(path), signal })
  if (size !== undefined && size > BOUNDS.fileBytes) await stream.cancel()
  requireFileSize(path, size ?? 0)
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer())
  requireFileSize(path, bytes.length)
  return { bytes, etag }
}

/** A whole file as text. Rejects with INVALID_REQUEST for one that is not UTF-8. */
export const readText = async (
  session: Session,
  path: string,
  signal: AbortSignal,
): Promise<{ text: string; etag: string | undefined }> => {
  const { bytes, etag } = await readBytes(session, path, signal)
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), etag }
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', `${path} is not UTF-8 text; use download or exec`, { cause })
  }
}
