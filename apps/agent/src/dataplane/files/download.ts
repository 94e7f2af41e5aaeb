import { BoxofficeError } from '@boxoffice/protocol'
import { readFile } from '../../files/files.ts'
import type { SandboxPath } from '../../files/paths.ts'
import type { Call } from '../../http/call.ts'
import { BodyWriter } from '../../http/responses/body-writer.ts'
import { cutStalledClient, DOWNLOAD_STALL_MS } from '../../http/responses/stalled-client.ts'
import type { Channel } from '../../supervisor/link.ts'
import type { FileStat } from '../../supervisor/payloads.ts'
import { sendArchive } from './archive-download.ts'
import { pathOf } from './file-paths.ts'
import { type ByteRange, matchesTag, parseRange } from './ranges.ts'

/** How often a range is asked for again when the file changes between the look and the read. */
const ATTEMPTS = 3

/** `GET|HEAD D/files/download` [4-104]. */
export const download = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, incoming, outgoing } = call
  const path = pathOf(call, query.required('path'))
  await sandbox.ready(signal)
  const archive = query.get('archive')
  if (archive !== undefined && archive !== 'tar') throw new BoxofficeError('INVALID_REQUEST', 'archive: must be tar')
  if (archive === 'tar') return sendArchive(call, path)
  const head = incoming.method === 'HEAD'
  if (!head && incoming.headers.range === undefined) return sendWhole(call, path)

  for (let attempt = 1; ; attempt++) {
    const stat = await look(call, path)
    if (notModified(call, stat)) return
    const range = rangeOf(call, stat)
    if (head) {
      outgoing.writeHead(range === undefined ? 200 : 206, headers(stat, range))
      outgoing.end()
      return
    }
    if (range === undefined) return sendWhole(call, path)
    if (await sendRange(call, path, { stat, range })) return
    if (attempt === ATTEMPTS) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'The file keeps changing; try again', { retryAfter: 1 })
  }
}

/** Opens the file without reading it: what cannot be opened cannot be looked at either. */
const look = async ({ sandbox, signal }: Call, path: SandboxPath): Promise<FileStat> => {
  let stat: FileStat | undefined
  const sink = {
    opened: (opened: FileStat) => {
      stat = opened
    },
    data: () => {},
  }
  const { done } = await readFile(sandbox, path, { sink, signal, offset: 0, length: 0 })
  await done
  if (stat === undefined) throw new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id')
  return stat
}

const sendWhole = async (call: Call, path: SandboxPath): Promise<void> => {
  await send(call, path, undefined, (stat) => {
    if (notModified(call, stat)) return false
    call.outgoing.writeHead(200, headers(stat, undefined))
    return true
  })
}

/** False when the file is another one than was looked at. */
const sendRange = async (call: Call, path: SandboxPath, { stat, range }: { stat: FileStat; range: ByteRange }): Promise<boolean> => {
  let same = false
  await send(call, path, range, (opened) => {
    same = opened.etag === stat.etag
    if (same) call.outgoing.writeHead(206, headers(opened, range))
    return same
  })
  return same
}

/** Pipes a file to the client, held back by whichever end is slower. `opened` says whether its content is wanted. */
const send = async (
  { sandbox, outgoing, signal }: Call,
  path: SandboxPath,
  range: ByteRange | undefined,
  opened: (stat: FileStat) => boolean,
): Promise<void> => {
  let channel: Channel | undefined
  let wanted = false
  let blocked = false
  const onDrain = (): void => {
    blocked = false
    channel?.resume()
  }
  outgoing.on('drain', onDrain)
  cutStalledClient(outgoing, DOWNLOAD_STALL_MS)
  const body = new BodyWriter(outgoing, () => {
    if (blocked) return
    blocked = true
    channel?.pause()
  })
  const finished = Promise.withResolvers<void>()
  const sink = {
    opened: (stat: FileStat) => {
      wanted = opened(stat)
      if (!wanted) {
        channel?.destroy()
        finished.resolve()
      }
    },
    data: (piece: Buffer) => {
      if (wanted) body.write(piece)
    },
  }
  const reading = await readFile(sandbox, path, {
    sink,
    signal,
    ...(range === undefined ? {} : { offset: range.start, length: range.length }),
  })
  channel = reading.channel
  reading.done.then(finished.resolve, finished.reject)
  try {
    await finished.promise
  } finally {
    outgoing.off('drain', onDrain)
  }
  if (!wanted) return
  body.flush()
  outgoing.end()
}

const quoted = (etag: string): string => `"${etag}"`

const lastModified = (stat: FileStat): string => new Date(Math.max(0, Math.min(stat.mtime_ms, 8.64e15))).toUTCString()

const headers = (stat: FileStat, range: ByteRange | undefined): Record<string, string | number> => ({
  'Content-Type': 'application/octet-stream',
  'Content-Length': range?.length ?? stat.size,
  ETag: quoted(stat.etag),
  'Last-Modified': lastModified(stat),
  'Accept-Ranges': 'bytes',
  ...(range === undefined ? {} : { 'Content-Range': `bytes ${range.start}-${range.start + range.length - 1}/${stat.size}` }),
})

/** Answers 304 when the client has this version already. */
const notModified = ({ incoming, outgoing }: Call, stat: FileStat): boolean => {
  const { 'if-none-match': tags, 'if-modified-since': since } = incoming.headers
  const unchanged =
    tags !== undefined
      ? matchesTag(tags, quoted(stat.etag), 'weak')
      : since !== undefined && Math.floor(stat.mtime_ms / 1000) * 1000 <= Date.parse(since)
  if (!unchanged) return false
  outgoing.writeHead(304, { ETag: quoted(stat.etag), 'Last-Modified': lastModified(stat) })
  outgoing.end()
  return true
}

/** With `If-Range` a part is sent only of the version that the client has begun. */
const rangeOf = ({ incoming: { headers: sent }, outgoing }: Call, stat: FileStat): ByteRange | undefined => {
  const condition = sent['if-range']
  if (typeof condition === 'string' && condition !== quoted(stat.etag) && condition !== lastModified(stat)) return undefined
  try {
    return parseRange(sent.range, stat.size)
  } catch (error) {
    outgoing.setHeader('Content-Range', `bytes */${stat.size}`)
    throw error
  }
}
