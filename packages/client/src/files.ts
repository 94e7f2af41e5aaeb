import { FileEntry, type FileRoot, ListFilesResponse, UploadResponse } from '@boxoffice/protocol'
import { retrying } from './backoff.ts'
import type { Dataplane } from './dataplane.ts'
import { failed, type HttpRequest, readJson } from './http.ts'
import { anySignal } from './signals.ts'

/** `root: 'sandbox'` takes absolute paths of the sandbox's own file system; the default is the workspace. */
type Common = { signal?: AbortSignal | undefined; root?: FileRoot | undefined }

/** Text, bytes, a Blob, or a stream of bytes (sent as it comes, in constant memory). */
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
    const { signal, root, mode, overwrite, ifMatch } = options
    const { body, repeatable } = toBody(content)
    const headers = { 'content-type': 'application/octet-stream', ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) }
    const request = { method: 'POST', headers, body, signal } as const
    const target = `/files/upload${query({ path, root, mode, overwrite })}`
    // A repeated write of the same bytes is the same write, unless it is conditional.
    const again = repeatable && overwrite !== false && ifMatch === undefined
    const windowMs = again ? Math.min(UPLOAD_WINDOW_MS, this.#dataplane.reconnectWindowMs) : 0
    const response = await retrying(() => this.#dataplane.request(target, request), { ...this.#patience(signal), windowMs })
    return await readJson(response, UploadResponse, signal)
  }

  /** A whole file, or a range of it. */
  async download(path: string, options: DownloadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return await retrying(async () => {
      const response = await this.#download(path, options)
      try {
        return new Uint8Array(await response.arrayBuffer())
      } catch (error) {
        throw failed(response.url, error, options.signal)
      }
    }, this.#patience(options.signal))
  }

  /** A whole file as UTF-8. */
  async text(path: string, options: Common = {}): Promise<string> {
    return new TextDecoder().decode(await this.download(path, options))
  }

  /** A file as it comes. Cancel the stream, or abort, to stop early. */
  async stream(path: string, options: DownloadOptions = {}): Promise<FileStream> {
    return toFileStream(await retrying(() => this.#download(path, options), this.#patience(options.signal)))
  }

  /** Every entry below `path`, sorted; pages are fetched as they are read. */
  async *walk(path = '.', { signal, root, pattern, type, depth }: ListOptions = {}): AsyncGenerator<FileEntry, void, undefined> {
    let cursor: string | null | undefined
    do {
      const target = `/files${query({ path, root, pattern, type, depth, limit: 1000, cursor })}`
      const page: ListFilesResponse = await readJson(await this.#request(target, { signal }), ListFilesResponse, signal)
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

  async stat(path: string, { signal, root, follow }: Common & { follow?: boolean } = {}): Promise<FileEntry> {
    return await readJson(await this.#request(`/files/stat${query({ path, root, follow })}`, { signal }), FileEntry, signal)
  }

  /** Creates a directory; one that exists is fine. Parents are created unless `parents` is false. */
  async mkdir(path: string, { signal, root, parents }: Common & { parents?: boolean } = {}): Promise<void> {
    await this.#done(`/files/mkdir${query({ root })}`, { method: 'POST', json: { path, parents }, signal })
  }

  async move(from: string, to: string, { signal, root, overwrite }: Common & { overwrite?: boolean } = {}): Promise<void> {
    await this.#done(`/files/move${query({ root })}`, { method: 'POST', json: { from, to, overwrite }, signal })
  }

  /** Removes a file, a link (not its target), an empty directory; with `recursive` any directory. */
  async delete(path: string, { signal, root, recursive }: Common & { recursive?: boolean } = {}): Promise<void> {
    await this.#done(`/files${query({ path, root, recursive })}`, { method: 'DELETE', signal })
  }

  /** Unpacks a tar archive below `path`. An entry that would leave it is refused before anything is written. */
  async uploadArchive(path: string, archive: FileContent, { signal, root }: Common = {}): Promise<void> {
    const headers = { 'content-type': 'application/x-tar' }
    await this.#done(`/files/upload${query({ path, root, archive: 'tar' })}`, {
      method: 'POST',
      headers,
      body: toBody(archive).body,
      signal,
    })
  }

  /** A directory as a tar archive: links stay links, special files are left out. */
  async downloadArchive(path: string, { signal, root }: Common = {}): Promise<FileStream> {
    return toFileStream(await this.#request(`/files/download${query({ path, root, archive: 'tar' })}`, { signal }))
  }

  #download(path: string, { signal, root, range }: DownloadOptions): Promise<Response> {
    const headers = range === undefined ? undefined : { range: `bytes=${range.start}-${range.end ?? ''}` }
    return this.#dataplane.request(`/files/download${query({ path, root })}`, { headers, signal })
  }

  async #request(path: string, request: HttpRequest): Promise<Response> {
    if (request.method !== undefined) return await this.#dataplane.request(path, request)
    return await retrying(() => this.#dataplane.request(path, request), this.#patience(request.signal))
  }

  async #done(path: string, request: HttpRequest): Promise<void> {
    const response = await this.#request(path, request)
    await response.body?.cancel()
  }

  #patience(signal: AbortSignal | undefined) {
    return { windowMs: this.#dataplane.reconnectWindowMs, signal: anySignal(signal, this.#dataplane.signal) }
  }
}

const query = (parameters: Record<string, string | number | boolean | null | undefined>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value != null) search.set(name, String(value))
  const text = search.toString()
  return text && `?${text}`
}

const toBody = (content: FileContent): { body: BodyInit; repeatable: boolean } => {
  if (content instanceof ReadableStream) return { body: content, repeatable: false }
  if (typeof content === 'object' && Symbol.asyncIterator in content) return { body: streamOf(content), repeatable: false }
  return { body: content as BodyInit, repeatable: true }
}

/** Pulls one chunk at a time, so that a slow network slows the source. */
const streamOf = (source: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> => {
  const iterator = source[Symbol.asyncIterator]()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel(reason) {
      await iterator.return?.(reason)
    },
  })
}

const toFileStream = (response: Response): FileStream => {
  const length = response.headers.get('content-length')
  return {
    stream: response.body ?? new Blob([]).stream(),
    size: length === null ? undefined : Number(length),
    etag: response.headers.get('etag') ?? undefined,
  }
}
