import { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { canDetach, detachRequest, hintRead, LARGE_BODY_BYTES } from '@boxoffice/node-http'
import { type ArchiveUploadResponse, BoxofficeError, type UploadResponse } from '@boxoffice/protocol'
import busboy from 'busboy'
import { statFile, type WriteOptions, writeFile } from '../../files/files.ts'
import { notRoot, type SandboxPath } from '../../files/paths.ts'
import { lookWhileGrowing } from '../../host/disk-floor.ts'
import { announcedLength } from '../../http/body.ts'
import type { Call } from '../../http/call.ts'
import { sendJson } from '../../http/responses/respond.ts'
import { UPLOAD_STALL_MS } from '../../http/responses/stalled-client.ts'
import { tooLarge } from '../../http/too-large.ts'
import { type UploadLimit, uploadLimit } from '../../http/upload-limit.ts'
import { requireNotHeld } from '../../sandbox/held.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { receiveArchive } from './archive-upload.ts'
import { pathOf } from './file-paths.ts'
import { matchesTag } from './ranges.ts'

/** `POST D/files/upload` [4-103]: raw body or multipart, one file or an archive. */
export const upload = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, incoming, outgoing, disk } = call
  const path = pathOf(call, query.required('path'))
  const archive = query.get('archive')
  if (archive !== undefined && archive !== 'tar') throw new BoxofficeError('INVALID_REQUEST', 'archive: must be tar')
  const most = sandbox.profile.max_upload_bytes
  const multipart = /^multipart\/form-data\b/i.test(incoming.headers['content-type'] ?? '')
  const announced = announcedLength(incoming)
  if (!multipart && announced !== undefined && announced > most) throw tooLarge(most)
  const fits = (bytes?: number): void => {
    requireNotHeld(sandbox)
    disk.require(path.given, path.root, bytes)
  }
  fits(announced)
  await sandbox.ready(signal)
  const options = archive === undefined ? await writeOptions(call, notRoot(path)) : undefined
  const limit = await uploadLimit(call, path, announced)
  using lease = limit.lease
  const body = multipart ? await multipartFile(incoming, signal) : incoming
  if (options === undefined) {
    const { files, bytes } = await receiveArchive(sandbox, path, { body, limit, fits, signal })
    if (lease !== undefined) lease.bytes = bytes
    return sendJson(outgoing, 200, { path: path.shown, size: bytes, created: true, files } satisfies ArchiveUploadResponse)
  }
  const size = multipart ? undefined : announced
  const result = await store(sandbox, path, { body, limit, fits, options: { ...options, ...(size === undefined ? {} : { size }) } })
  if (lease !== undefined) lease.bytes = result.size
  // What was spliced has not passed through here, so nobody knows where the next request begins.
  if (result.spliced) outgoing.setHeader('Connection', 'close')
  sendJson(outgoing, 200, { path: path.shown, size: result.size, created: result.created } satisfies UploadResponse)
}

const writeOptions = async (call: Call, path: SandboxPath): Promise<WriteOptions> => {
  const { query, incoming, sandbox, signal } = call
  const mode = query.get('mode')
  if (mode !== undefined && !/^0?[0-7]{3}$/.test(mode))
    throw new BoxofficeError('INVALID_REQUEST', 'mode: must be octal digits, as in 0644')
  const overwrite = query.flag('overwrite', true) && incoming.headers['if-none-match']?.trim() !== '*'
  const ifMatch = await condition(sandbox, path, incoming.headers['if-match'], signal)
  return {
    overwrite,
    signal,
    ...(mode === undefined ? {} : { mode: Number.parseInt(mode, 8) }),
    ...(ifMatch === undefined ? {} : { ifMatch }),
  }
}

/** `If-Match` as the etag that the supervisor compares at the rename. Of several, and of `*`, it is the one that is there now. */
const condition = async (
  sandbox: Sandbox,
  path: SandboxPath,
  header: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> => {
  if (header === undefined) return undefined
  const changed = new BoxofficeError(
    'PRECONDITION_FAILED',
    `${JSON.stringify(path.given)} has changed: its ETag is another one; read it again`,
  )
  const { etag } = await statFile(sandbox, path, { follow: true, signal }).catch((error: unknown) => {
    throw error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND' ? changed : error
  })
  if (!matchesTag(header, `"${etag}"`, 'strong')) throw changed
  return etag
}

/** Streams one file into the sandbox. Nothing of it is there until all of it is. */
export const store = async (
  sandbox: Sandbox,
  path: SandboxPath,
  { body, limit, fits, options }: { body: Readable; limit: UploadLimit; fits: () => void; options: WriteOptions },
): Promise<{ created: boolean; size: number; spliced: boolean }> => {
  const { channel, result } = await writeFile(sandbox, path, options)
  const sent = Promise.withResolvers<void>()
  const stalled = (): void => sent.reject(new BoxofficeError('TIMEOUT', 'body: not received in time'))
  let splice = 'possible' as 'possible' | 'under way' | 'over' | 'impossible'
  const timer = setTimeout(() => {
    // The splice has a clock of its own.
    if (splice === 'under way') timer.refresh()
    else stalled()
  }, UPLOAD_STALL_MS)
  let bytes = 0
  const look = lookWhileGrowing(fits)
  const spliceRest = async (incoming: IncomingMessage, rest: number): Promise<void> => {
    const detached = await detachRequest(incoming)
    if (detached === undefined) return
    splice = 'under way'
    const outcome = await channel.splice(detached.socket, rest, UPLOAD_STALL_MS)
    splice = outcome === 'nothing' ? 'impossible' : 'over'
    if (outcome === 'all' && detached.untouched) return onEnd()
    if (outcome === 'stalled') stalled()
    else if (outcome === 'source') onClose()
    // What the sandbox refuses, it says itself; what nobody has begun goes on as before.
    else if (outcome !== 'sink' && outcome !== 'nothing') sent.reject(brokenOff())
    // Also what nobody wants any more is read: a client hears of a refusal when it is.
    detached.resume()
  }
  const onData = (chunk: Buffer): void => {
    if (splice === 'over') return
    timer.refresh()
    hintRead(chunk.length)
    bytes += chunk.length
    if (bytes > limit.bytes) return sent.reject(limit.refused())
    try {
      look(bytes)
    } catch (error) {
      return sent.reject(error)
    }
    const room = channel.write(chunk)
    const rest = (options.size ?? 0) - bytes
    if (splice === 'possible' && body instanceof IncomingMessage && rest >= LARGE_BODY_BYTES && channel.canSplice && canDetach(body))
      return void spliceRest(body, rest).catch(sent.reject)
    if (room) return
    body.pause()
    void channel.drained().then(() => {
      timer.refresh()
      body.resume()
    })
  }
  const onEnd = (): void => {
    channel.writeEnd()
    sent.resolve()
  }
  const onClose = (): void => sent.reject(new BoxofficeError('INVALID_REQUEST', 'body: the connection closed before its end'))
  const onError = (error: Error): void =>
    sent.reject(error instanceof BoxofficeError ? error : new BoxofficeError('INVALID_REQUEST', 'body: broken off'))
  body.on('data', onData)
  body.on('end', onEnd)
  body.on('close', onClose)
  body.on('error', onError)
  try {
    // A refusal of the sandbox (no space, exists) must not wait for the rest of the body.
    await Promise.race([sent.promise, result])
    clearTimeout(timer)
    return { ...(await result), spliced: splice === 'over' }
  } catch (error) {
    channel.destroy()
    throw error
  } finally {
    clearTimeout(timer)
    body.off('data', onData)
    body.off('end', onEnd)
    body.off('close', onClose)
  }
}

const brokenOff = (): BoxofficeError => new BoxofficeError('BACKEND_UNAVAILABLE', 'The upload was broken off; try again', { retryAfter: 1 })

/** The field `file` of a form, as soon as its content begins. */
const multipartFile = (incoming: IncomingMessage, signal: AbortSignal): Promise<Readable> =>
  new Promise((resolve, reject) => {
    const fail = (message: string): void => reject(new BoxofficeError('INVALID_REQUEST', message))
    let parser: busboy.Busboy
    try {
      parser = busboy({ headers: incoming.headers, limits: { fields: 20, files: 1, parts: 40 } })
    } catch {
      return fail('body: not a valid multipart form')
    }
    let found: Readable | undefined
    const timer = setTimeout(() => reject(new BoxofficeError('TIMEOUT', 'body: not received in time')), UPLOAD_STALL_MS)
    incoming.once('close', () => clearTimeout(timer))
    parser.on('file', (name, file) => {
      if (name !== 'file') return void file.resume()
      clearTimeout(timer)
      found = file
      resolve(file)
    })
    parser.on('error', () => {
      found?.destroy(new BoxofficeError('INVALID_REQUEST', 'body: not a valid multipart form'))
      fail('body: not a valid multipart form')
    })
    parser.on('close', () => fail('body: the form has no field "file"'))
    signal.addEventListener('abort', () => found?.destroy(), { once: true })
    incoming.on('error', () => found?.destroy())
    incoming.pipe(parser)
  })
