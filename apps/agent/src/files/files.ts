import { BoxofficeError } from '@boxoffice/protocol'
import { whyBroken } from '../sandbox/loss.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { fileError, parseFault } from '../supervisor/faults.ts'
import type { Channel, ChannelHandler } from '../supervisor/link.ts'
import { FileStat } from '../supervisor/payloads.ts'
import { FRAME } from '../supervisor/wire.ts'
import type { SandboxPath } from './paths.ts'

/** What a file operation brings; after `end` or `failed` nothing more comes. */
export interface FileSink {
  result(result: Record<string, unknown>): void
  data(piece: Buffer): void
  /** The content of a read or a list is complete. */
  end(): void
  failed(error: BoxofficeError): void
}

/** Paths in the client's own words, for messages; `to` is the target of a move. */
type Names = { given: string; to?: string }

/** One operation on files, inside the sandbox and as its user. Resolves with its channel as soon as it has been sent. */
export const openFileOperation = async (
  sandbox: Sandbox,
  operation: Record<string, unknown> & { op: string },
  { given, to, sink, signal }: Names & { sink: FileSink; signal: AbortSignal },
): Promise<Channel> => {
  const { link } = sandbox
  let over = false
  const once = (step: () => void): void => {
    if (over) return
    over = true
    // An archive is thousands of operations with one signal.
    signal.removeEventListener('abort', abort)
    step()
  }
  const handler: ChannelHandler = {
    data: (_stream, piece) => {
      if (!over) sink.data(piece)
    },
    frame: (type, payload) => {
      if (type === FRAME.result) sink.result(payload)
      else if (type === FRAME.end) once(() => sink.end())
      else once(() => sink.failed(type === FRAME.error ? fileError(parseFault(payload), { op: operation.op, given, to }) : broken()))
    },
    closed: () => void whyBroken(sandbox, link).then((error) => once(() => sink.failed(error.code === 'SANDBOX_LOST' ? error : broken()))),
  }
  const channel = await link.open(handler, signal)
  const abort = (): void => {
    channel.destroy()
    once(() => sink.failed(signal.reason instanceof BoxofficeError ? signal.reason : broken()))
  }
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  channel.send(FRAME.file, operation)
  return channel
}

const broken = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'The sandbox broke off the file operation; try again', { retryAfter: 1 })

/** An operation whose response is one `result`. */
export const fileCall = async (
  sandbox: Sandbox,
  operation: Record<string, unknown> & { op: string },
  { signal, ...names }: Names & { signal: AbortSignal },
): Promise<Record<string, unknown>> => {
  const { promise, resolve, reject } = Promise.withResolvers<Record<string, unknown>>()
  const nothing = (): void => {}
  await openFileOperation(sandbox, operation, { ...names, signal, sink: { result: resolve, data: nothing, end: nothing, failed: reject } })
  return promise
}

export const statFile = async (
  sandbox: Sandbox,
  { root, path, given }: SandboxPath,
  options: { follow: boolean; signal: AbortSignal },
): Promise<FileStat> =>
  FileStat.parse(await fileCall(sandbox, { op: 'stat', root, path, follow: options.follow }, { given, signal: options.signal }))

/** Receives one file's content: first `opened`, then the pieces. */
export interface ReadSink {
  opened(stat: FileStat): void
  data(piece: Buffer): void
}

/** Reads a file (or a part) into a sink. `channel` is for backpressure; `done` settles with the end of the content. */
export const readFile = async (
  sandbox: Sandbox,
  path: SandboxPath,
  options: { sink: ReadSink; signal: AbortSignal; offset?: number; length?: number },
): Promise<{ channel: Channel; done: Promise<void> }> => {
  const { promise: done, resolve, reject } = Promise.withResolvers<void>()
  done.catch(() => {})
  const { sink, signal, offset, length } = options
  const channel = await openFileOperation(
    sandbox,
    {
      op: 'read',
      root: path.root,
      path: path.path,
      ...(offset === undefined ? {} : { offset }),
      ...(length === undefined ? {} : { length }),
    },
    {
      given: path.given,
      signal,
      sink: {
        result: (result) => sink.opened(FileStat.parse(result)),
        data: (piece) => sink.data(piece),
        end: resolve,
        failed: reject,
      },
    },
  )
  return { channel, done }
}

/** `follow: false` replaces a link instead of what it leads to. */
export type WriteOptions = { mode?: number; overwrite: boolean; follow?: boolean; ifMatch?: string; size?: number; signal: AbortSignal }

/** An upload in progress. The file appears whole at the end, or not at all. */
export type Upload = {
  channel: Channel
  /** Resolves after the end has been written; rejects as soon as the sandbox refuses. */
  result: Promise<{ created: boolean; size: number }>
}

export const writeFile = async (sandbox: Sandbox, { root, path, given }: SandboxPath, options: WriteOptions): Promise<Upload> => {
  const { promise, resolve, reject } = Promise.withResolvers<{ created: boolean; size: number }>()
  promise.catch(() => {})
  const nothing = (): void => {}
  const channel = await openFileOperation(
    sandbox,
    {
      op: 'write',
      root,
      path,
      overwrite: options.overwrite,
      ...(options.follow === undefined ? {} : { follow: options.follow }),
      ...(options.mode === undefined ? {} : { mode: options.mode }),
      ...(options.ifMatch === undefined ? {} : { if_match: options.ifMatch }),
      ...(options.size === undefined ? {} : { size: options.size }),
    },
    {
      given,
      signal: options.signal,
      sink: {
        result: ({ created, size }) => resolve({ created: created === true, size: Number(size) }),
        data: nothing,
        end: nothing,
        failed: reject,
      },
    },
  )
  return { channel, result: promise }
}
