import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { BoxofficeError } from '@boxoffice/protocol'
import busboy from 'busboy'
import type { DataplaneClient, SessionDataplane } from '../../../dataplane/client.ts'
import { filePath, queryOf } from '../../facade/paths.ts'
import type { Opened } from '../call/access-tokens.ts'
import { unsupported } from '../call/unsupported.ts'

const ASKED = ['range', 'if-range', 'if-none-match'] as const
const TOLD = ['content-type', 'content-length', 'content-range', 'accept-ranges', 'etag', 'last-modified'] as const
const METADATA = 'x-metadata-'
const MAX_FILES = 1000

export type FileCall = { opened: Opened; path: string | undefined; incoming: IncomingMessage; outgoing: ServerResponse }
type Busboy = ReturnType<typeof busboy>
type Written = { name: string; type: 'file'; path: string }

/** `/files` of E2B's in-sandbox API: content of files, as streams (contract 7.3). */
export class Files {
  readonly #dataplane: DataplaneClient

  constructor(dataplane: DataplaneClient) {
    this.#dataplane = dataplane
  }

  /** The content of a file, or a range of it. */
  async download({ opened, path, incoming, outgoing }: FileCall): Promise<void> {
    if (path === undefined) throw new BoxofficeError('INVALID_REQUEST', 'path: is missing')
    const headers = Object.fromEntries(
      ASKED.flatMap((name) => (typeof incoming.headers[name] === 'string' ? [[name, incoming.headers[name]]] : [])),
    )
    const method = incoming.method === 'HEAD' ? 'HEAD' : 'GET'
    const response = await this.#of(opened).request({ method, path: `/files/download${queryOf(filePath(path).query)}`, headers })
    const told = Object.fromEntries(TOLD.flatMap((name) => (response.headers[name] === undefined ? [] : [[name, response.headers[name]]])))
    outgoing.writeHead(response.statusCode ?? 200, told)
    await pipeline(response, outgoing)
  }

  /** Writes one file (the body, or the one part of a form) or several (parts of a form, named by their file names). */
  async upload({ opened, path, incoming }: FileCall): Promise<Written[]> {
    if (Object.keys(incoming.headers).some((name) => name.startsWith(METADATA))) throw unsupported('metadata of files')
    const isForm = /^multipart\/form-data\b/i.test(incoming.headers['content-type'] ?? '')
    if (!isForm && path === undefined) throw new BoxofficeError('INVALID_REQUEST', 'path: is missing')
    const form = isForm ? formOf(incoming) : undefined
    const body = bodyOf(incoming)
    try {
      if (form !== undefined) return await this.#form(opened, path, body, form)
      return [await this.#write(opened, path ?? '', body)]
    } catch (thrown) {
      // The connection to the agent ends with the body and tells another reason.
      throw isBrokenGzip(body.errored)
        ? new BoxofficeError('INVALID_REQUEST', 'the body is not valid gzip', { cause: body.errored })
        : thrown
    }
  }

  async #form(opened: Opened, path: string | undefined, body: Readable, form: Busboy): Promise<Written[]> {
    const writes: Promise<Written>[] = []
    const failed = Promise.withResolvers<never>()
    form.on('file', (_name, content, { filename }) => {
      content.on('error', ignored)
      const write = this.#write(opened, path ?? filename ?? '', content)
      write.catch((thrown: unknown) => {
        content.resume()
        failed.reject(thrown)
      })
      writes.push(write)
    })
    form.on('filesLimit', () => failed.reject(new BoxofficeError('INVALID_REQUEST', `at most ${MAX_FILES} files at once`)))
    const read = pipeline(body, form).catch((cause: unknown) => {
      throw notForm(cause)
    })
    failed.promise.catch(() => {})
    await Promise.race([read, failed.promise])
    if (writes.length === 0) throw new BoxofficeError('INVALID_REQUEST', 'the form has no file')
    return Promise.all(writes)
  }

  async #write(opened: Opened, path: string, content: NodeJS.ReadableStream): Promise<Written> {
    const { absolute, query } = filePath(path)
    const response = await this.#of(opened).request({
      method: 'POST',
      path: `/files/upload${queryOf(query)}`,
      headers: { 'content-type': 'application/octet-stream' },
      body: content as IncomingMessage,
    })
    response.resume()
    return { name: absolute.slice(absolute.lastIndexOf('/') + 1), type: 'file', path: absolute }
  }

  #of({ session, actor }: Opened): SessionDataplane {
    return this.#dataplane.session(session.id, actor)
  }
}

function formOf({ headers }: IncomingMessage): Busboy {
  try {
    return busboy({ headers, preservePath: true, limits: { files: MAX_FILES, fields: 0 } })
  } catch (cause) {
    throw notForm(cause)
  }
}

const notForm = (cause: unknown): BoxofficeError =>
  new BoxofficeError('INVALID_REQUEST', 'the form is not valid multipart/form-data', { cause })

const isBrokenGzip = (error: Error | null): boolean => error !== null && 'code' in error && String(error.code).startsWith('Z_')

/**
 * Content can break while nobody reads it: before its connection to the agent is there, or after a refusal. An error of a stream that
 * nobody listens to ends the process; who reads it later hears of it all the same.
 */
const ignored = (): void => {}

/** Unpacked where it comes compressed; the agent's limit is for what comes out. A refusal ends this stream, not the connection that it goes back on. */
function bodyOf(incoming: IncomingMessage): Readable {
  const encoding = incoming.headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity' && encoding !== 'gzip')
    throw new BoxofficeError('UNSUPPORTED_MEDIA_TYPE', 'Content-Encoding must be gzip or identity')
  const body = encoding === 'gzip' ? createGunzip() : new PassThrough()
  body.on('error', ignored)
  incoming.once('close', () => {
    if (!incoming.complete) body.destroy(new Error('the client has gone'))
  })
  return incoming.pipe(body)
}
