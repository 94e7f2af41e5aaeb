import { FileEntry, type FileRoot, ListFilesResponse, UploadResponse } from '@boxoffice/protocol'
import { isCode } from '../base/errors.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { query } from '../base/query.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { retrying } from '../network/backoff.ts'
import { type HttpBody, type HttpRequest, readBytes, readJson } from '../network/http.ts'
import { type AskForPart, resumedStream } from '../network/resumed-stream.ts'
import { StreamBody } from '../network/stream-body.ts'
import { eachFile, entriesOf, type FileOutcome, type ManyFiles } from './many-files.ts'
import { type FileWatch, type WatchOptions, watchFiles } from './watch.ts'

/** `root: 'sandbox'` takes absolute paths of the sandbox's own file system; the default is the workspace. */
type Common = { signal?: AbortSignal | undefined; root?: FileRoot | undefined }

/** Text, bytes, a Blob, or a stream of bytes: sent as it comes, in constant memory; by browsers once all of it is there. */
export type FileContent = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

export type UploadOptions = Common & {
  /** Octal, e.g. `0755`. */
  mode?: string | undefined
  /** Default true; with false an existing file is refused with `FILE_EXISTS`. */
  overwrite?: boolean | undefined
  /** Only if the file still has this ETag, else `PRECONDITION_FAILED`. */
  ifMatch?: string | undefined
}

export type DownloadOptions = Common & {
  /** Bytes `start` to `end`, both included, as in HTTP; without `end` to the last one. */
  range?: { start: number; end?: number } | undefined
}

export type ListOptions = Common & {
  /** A glob; `*.json` matches at any depth. */
  pattern?: string | undefined
  /** Default `file`. */
  type?: 'file' | 'any' | undefined
  depth?: number | undefined
}

export type FileStream = {
  stream: ReadableStream<Uint8Array<ArrayBuffer>>
  /** Bytes that follow, where the server knows. */
  size: number | undefined
  etag: string | undefined
}

type Follow = Common & { follow?: boolean }
type Parents = Common & { parents?: boolean }
type Overwrite = Common & { overwrite?: boolean }
type Recursive = Common & { recursive?: boolean }

const COMMON: OptionNames<Common> = { signal: true, root: true }
const UPLOAD: OptionNames<UploadOptions> = { ...COMMON, mode: true, overwrite: true, ifMatch: true }
const DOWNLOAD: OptionNames<DownloadOptions> = { ...COMMON, range: true }
const LIST: OptionNames<ListOptions> = { ...COMMON, pattern: true, type: true, depth: true }
const FOLLOW: OptionNames<Follow> = { ...COMMON, follow: true }
const PARENTS: OptionNames<Parents> = { ...COMMON, parents: true }
const OVERWRITE: OptionNames<Overwrite> = { ...COMMON, overwrite: true }
const RECURSIVE: OptionNames<Recursive> = { ...COMMON, recursive: true }

/** Shorter than for reading: a server that refuses a body early may look like one that is gone. */
const UPLOAD_WINDOW_MS = 3_000

/** The files of a sandbox. Paths are relative to `/workspace`. */
export class Files {
  readonly #dataplane: Dataplane

  constructor(dataplane: Dataplane) {
    this.#dataplane = dataplane
  }

  /** Writes a file whole or not at all; parents are created. */
  async upload(path: string, content: FileContent, options: UploadOptions = {}): Promise<UploadResponse> {
    refuseUnknown('files.upload', options, UPLOAD)
    const { signal, root, mode, overwrite, ifMatch } = options
    const { body, repeatable } = toBody(content)
    const headers = { 'content-type': 'application/octet-stream', ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) }
    const target = `/files/upload${query({ path, root, mode, overwrite })}`
    // A repeated write of the same bytes is the same write, unless it is conditional.
    const again = repeatable && overwrite !== false && ifMatch === undefined
    return await readJson(await this.#send(target, { method: 'POST', headers, body, signal }, again), UploadResponse, signal)
  }

  /** A whole file, or a range of it. */
  async download(path: string, options: DownloadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    refuseUnknown('files.download', options, DOWNLOAD)
    return await retrying(async () => {
      return await readBytes(await this.#download(path, options), options.signal)
    }, this.#patience(options.signal))
  }

  /**
   * Writes several files, each whole or not at all: `{ 'a.txt': 'text', 'b.bin': bytes }` or pairs of path and content. The options
   * hold for each. A file that fails does not end the others: look at `ok` of each outcome. Rejects for an abort only.
   */
  async uploadMany(files: ManyFiles<FileContent>, options: UploadOptions = {}): Promise<FileOutcome<UploadResponse>[]> {
    refuseUnknown('files.uploadMany', options, UPLOAD)
    return await eachFile(entriesOf(files), (path, content) => this.upload(path, content, options))
  }

  /** Several whole files; `value` of each outcome is its bytes. A file that fails does not end the others. Rejects for an abort only. */
  async downloadMany(paths: Iterable<string>, options: Common = {}): Promise<FileOutcome<Uint8Array<ArrayBuffer>>[]> {
    refuseUnknown('files.downloadMany', options, COMMON)
    return await eachFile(
      Array.from(paths, (path) => [path, undefined] as const),
      (path) => this.download(path, options),
    )
  }

  /** A whole file as UTF-8. */
  async text(path: string, options: Common = {}): Promise<string> {
    refuseUnknown('files.text', options, COMMON)
    return new TextDecoder().decode(await this.download(path, options))
  }

  /**
   * A file as it comes; after a dropped connection it goes on with the next byte. A file that has changed by then ends the stream
   * with `PRECONDITION_FAILED`. Cancel the stream, or abort, to stop early.
   */
  async stream(path: string, options: DownloadOptions = {}): Promise<FileStream> {
    refuseUnknown('files.stream', options, DOWNLOAD)
    const { range } = options
    const patience = this.#patience(options.signal)
    const response = await retrying(() => this.#download(path, options), patience)
    const ask: AskForPart = (start, etag, signal) =>
      retrying(() => this.#download(path, { ...options, range: { ...range, start }, signal }, { 'if-range': etag }), this.#patience(signal))
    const resume = { from: range?.start ?? 0, windowMs: patience.windowMs, ask }
    return fileStream(response, resumedStream(response, { name: path, signal: patience.signal, resume }))
  }

  /** Every entry below `path`, sorted; pages are fetched as they are read. */
  async *walk(path = '.', options: ListOptions = {}): AsyncGenerator<FileEntry, void, undefined> {
    refuseUnknown('files.list', options, LIST)
    const { signal, root, pattern, type, depth } = options
    let cursor: string | null | undefined
    do {
      const target = `/files${query({ path, root, pattern, type, depth, limit: 1000, cursor })}`
      const page: ListFilesResponse = await readJson(await this.#repeat(target, { signal }), ListFilesResponse, signal)
      yield* page.files
      cursor = page.next_cursor
    } while (cursor != null)
  }

  /** Every entry below `path`. */
  async list(path = '.', options: ListOptions = {}): Promise<FileEntry[]> {
    const entries: FileEntry[] = []
    for await (const entry of this.walk(path, options)) entries.push(entry)
    return entries
  }

  async stat(path: string, options: Follow = {}): Promise<FileEntry> {
    refuseUnknown('files.stat', options, FOLLOW)
    const { signal, root, follow } = options
    return await readJson(await this.#repeat(`/files/stat${query({ path, root, follow })}`, { signal }), FileEntry, signal)
  }

  /** Whether there is something at `path`; a link counts, wherever it leads, unless `follow` is true. */
  async exists(path: string, options: Follow = {}): Promise<boolean> {
    refuseUnknown('files.exists', options, FOLLOW)
    try {
      await this.stat(path, options)
      return true
    } catch (error) {
      // A file on the way is as much of a no as a directory that is missing.
      if (isCode(error, 'FILE_NOT_FOUND') || isCode(error, 'NOT_A_DIRECTORY')) return false
      throw error
    }
  }

  /** Creates a directory; one that exists is fine. Parents are created unless `parents` is false. */
  async mkdir(path: string, options: Parents = {}): Promise<void> {
    refuseUnknown('files.mkdir', options, PARENTS)
    const { signal, root, parents } = options
    await done(this.#repeat(`/files/mkdir${query({ root })}`, { method: 'POST', json: { path, parents }, signal }))
  }

  async move(from: string, to: string, options: Overwrite = {}): Promise<void> {
    refuseUnknown('files.move', options, OVERWRITE)
    const { signal, root, overwrite } = options
    const request = { method: 'POST', json: { from, to, overwrite }, signal } as const
    await this.#unlessDone(`/files/move${query({ root })}`, request, () => this.exists(to, { signal, root }))
  }

  /** Removes a file, a link (not its target), an empty directory; with `recursive` any directory. */
  async delete(path: string, options: Recursive = {}): Promise<void> {
    refuseUnknown('files.delete', options, RECURSIVE)
    const { signal, root, recursive } = options
    await this.#unlessDone(`/files${query({ path, root, recursive })}`, { method: 'DELETE', signal }, () => true)
  }

  /** Unpacks a tar archive below `path`. An entry that would leave it ends the upload with a refusal; entries before it stay. */
  async uploadArchive(path: string, archive: FileContent, options: Common = {}): Promise<void> {
    refuseUnknown('files.uploadArchive', options, COMMON)
    const { signal, root } = options
    const { body, repeatable } = toBody(archive)
    const headers = { 'content-type': 'application/x-tar' }
    const target = `/files/upload${query({ path, root, archive: 'tar' })}`
    await done(this.#send(target, { method: 'POST', headers, body, signal }, repeatable))
  }

  /**
   * A directory as a tar archive: links stay links, special files are left out. It is made while it is sent, so that a dropped
   * connection ends the stream with a `ConnectionError`.
   */
  async downloadArchive(path: string, options: Common = {}): Promise<FileStream> {
    refuseUnknown('files.downloadArchive', options, COMMON)
    const { signal, root } = options
    const response = await this.#repeat(`/files/download${query({ path, root, archive: 'tar' })}`, { signal })
    return fileStream(response, resumedStream(response, { name: path, signal: this.#patience(signal).signal }))
  }

  #download(path: string, { signal, root, range }: DownloadOptions, condition: Record<string, string> = {}): Promise<Response> {
    const headers = range === undefined ? undefined : { range: `bytes=${range.start}-${range.end ?? ''}`, ...condition }
    return this.#dataplane.request(`/files/download${query({ path, root })}`, { headers, signal })
  }

  /** A body; sent again for a short while if that is the same write. */
  #send(path: string, request: HttpRequest, again: boolean): Promise<Response> {
    const windowMs = again ? Math.min(UPLOAD_WINDOW_MS, this.#dataplane.reconnectWindowMs) : 0
    return retrying(() => this.#dataplane.request(path, request), { ...this.#patience(request.signal), windowMs })
  }

  /** What may be asked any number of times. */
  #repeat(path: string, request: HttpRequest): Promise<Response> {
    return retrying(() => this.#dataplane.request(path, request), this.#patience(request.signal))
  }

  /** Asks again after a lost answer; then a file that is not there any more may have gone with the first request. */
  async #unlessDone(path: string, request: HttpRequest, isDone: () => boolean | Promise<boolean>): Promise<void> {
    let unanswered = false
    const attempt = async (): Promise<void> => {
      try {
        await done(this.#dataplane.request(path, request))
      } catch (error) {
        if (unanswered && isCode(error, 'FILE_NOT_FOUND') && (await isDone())) return
        unanswered ||= isCode(error, 'CONNECTION_FAILED') || isCode(error, 'BACKEND_UNAVAILABLE')
        throw error
      }
    }
    await retrying(attempt, this.#patience(request.signal))
  }

  /**
   * Watches a directory: an iterable of changes, with paths as `list` gives them. Resolves when it is watched; rejects with `FILE_NOT_FOUND`,
   * `NOT_A_DIRECTORY`, `RATE_LIMITED` above 8 watches in a sandbox, or `UNSUPPORTED`.
   */
  watch(path: string, options: WatchOptions = {}): Promise<FileWatch> {
    return watchFiles(this.#dataplane, path, options)
  }

  #patience(signal: AbortSignal | undefined) {
    return { windowMs: this.#dataplane.reconnectWindowMs, signal: anySignal(signal, this.#dataplane.signal) }
  }
}

const done = async (answer: Promise<Response>): Promise<void> => {
  const response = await answer
  await response.body?.cancel()
}

const toBody = (content: FileContent): { body: HttpBody | StreamBody; repeatable: boolean } => {
  if (content instanceof ReadableStream || (typeof content === 'object' && Symbol.asyncIterator in content))
    return { body: new StreamBody(content), repeatable: false }
  return { body: content as HttpBody, repeatable: true }
}

const fileStream = (response: Response, stream: FileStream['stream']): FileStream => {
  const length = response.headers.get('content-length')
  return { stream, size: length === null ? undefined : Number(length), etag: response.headers.get('etag') ?? undefined }
}
