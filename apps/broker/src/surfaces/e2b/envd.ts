import type { IncomingMessage, ServerResponse } from 'node:http'
import { finish, markAuthenticated, type RateLimit, readAtMost } from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, requestIdFrom } from '@boxoffice/protocol'
import type { Log } from '../../host/log.ts'
import type { AddressOf } from '../../http/address.ts'
import { countFailures } from '../../http/auth.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Bytes } from '../../http/server.ts'
import type { AccessTokens, Opened } from './call/access-tokens.ts'
import { endEnvelope, parseJson, readEnvelope, statusOf, toConnectError } from './call/connect.ts'
import { unsupported } from './call/unsupported.ts'
import { type EnvdCalls, streamTo } from './envd-calls.ts'
import type { Files } from './filesystem/files.ts'

export type EnvdOptions = {
  /** The path that it is below. */
  base: string
  tokens: AccessTokens
  calls: EnvdCalls
  files: Files
  addressOf: AddressOf
  authFailures: RateLimit
  metrics: Metrics
  log: Log
}

const MESSAGE_BYTES = 4 * 1024 * 1024
/** How long a message may take to arrive. Files may take as long as they move; the agent looks after that. */
const MESSAGE_TIMEOUT_MS = 30_000
const ROUTES = /^\/(?:files|health|(?:process\.Process|filesystem\.Filesystem)\/\w+)$/
const SIGNED = /^\/files\?(?:.*&)?signature=v1_/
const MIN_KEEPALIVE_SECONDS = 1
/** A longer timer would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1
const MAX_KEEPALIVE_SECONDS = 3600

type Call = { incoming: IncomingMessage; outgoing: ServerResponse; path: string; query: URLSearchParams }

/**
 * E2B's in-sandbox API, over the dataplane of the sandbox that the headers name (contract 7.3). It takes the requests of `node:http`
 * as they are: content of files and events of processes are streams in both directions.
 */
export function createEnvd(options: EnvdOptions): Pick<Bytes, 'owns' | 'handle'> {
  const { base, tokens, calls, files, addressOf, authFailures, metrics, log } = options

  const targetOf = ({ url = '' }: IncomingMessage): { path: string; query: URLSearchParams } | undefined => {
    // The SDK leaves the base out of signed URLs.
    if (!url.startsWith(`${base}/`) && !SIGNED.test(url)) return undefined
    const [path = '', search = ''] = url.slice(url.startsWith(`${base}/`) ? base.length : 0).split('?', 2)
    return ROUTES.test(path) ? { path, query: new URLSearchParams(search) } : undefined
  }

  const open = async (incoming: IncomingMessage): Promise<Opened> => {
    const header = (name: string): string | undefined => {
      const value = incoming.headers[name]
      return Array.isArray(value) ? value[0] : value
    }
    const address = addressOf({ env: { incoming }, req: { header } })
    const opened = await countFailures(authFailures, address, () => tokens.open(header('e2b-sandbox-id'), header('x-access-token')))
    markAuthenticated(incoming.socket, { tenant: opened.sandbox.tenant, principal: opened.actor.actor })
    return opened
  }

  const serve = async (call: Call): Promise<void> => {
    const { incoming, outgoing, path, query } = call
    // It has no header that names its sandbox.
    if (query.has('signature')) throw unsupported('signed URLs', 'read and write files by the SDK')
    const opened = await open(incoming)
    requireUser(incoming, query)
    if (path === '/health') return void outgoing.writeHead(204).end()
    if (path === '/files') return serveFiles(call, opened)
    if (incoming.method !== 'POST')
      throw new BoxofficeError('METHOD_NOT_ALLOWED', `method ${incoming.method} is not allowed here; use POST`)
    const name = path.slice(1)
    const type = incoming.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
    const streaming = calls.streaming[name]
    if (streaming !== undefined) {
      requireType(type, 'application/connect+json')
      const message = readEnvelope(await bodyOf(call))
      const asked = secondsOrMs(incoming.headers['connect-timeout-ms'])
      const timeoutMs = asked && Math.min(asked, MAX_TIMER_MS)
      const keepalive = secondsOrMs(incoming.headers['keepalive-ping-interval'])
      const stream = streamTo(outgoing, keepalive && Math.min(Math.max(keepalive, MIN_KEEPALIVE_SECONDS), MAX_KEEPALIVE_SECONDS))
      return streaming({ opened, timeoutMs, stream }, message)
    }
    const unary = calls.unary[name]
    if (unary === undefined) throw new BoxofficeError('UNSUPPORTED', `there is no call ${name}`)
    requireType(type, 'application/json')
    json(outgoing, 200, await unary(opened, parseJson(await bodyOf(call))))
  }

  const serveFiles = async ({ incoming, outgoing, query }: Call, opened: Opened): Promise<void> => {
    const call = { opened, incoming, outgoing, path: query.get('path') ?? undefined }
    if (incoming.method === 'GET' || incoming.method === 'HEAD') return files.download(call)
    if (incoming.method !== 'POST') throw new BoxofficeError('METHOD_NOT_ALLOWED', `method ${incoming.method} is not allowed here`)
    if (incoming.headers.expect !== undefined) outgoing.writeContinue()
    json(outgoing, 200, await files.upload(call))
  }

  const fail = ({ incoming, outgoing, path }: Call, requestId: string, thrown: unknown): void => {
    // The client has closed its connection, so the error that follows is no failure of the broker.
    if (outgoing.destroyed || (incoming.destroyed && !incoming.complete)) return void outgoing.destroy()
    const error = fromUnknown(thrown)
    metrics.refused(error.code)
    const told = toConnectError(error)
    const status = statusOf(told)
    if (error.code === 'INTERNAL') log.error({ request_id: requestId, code: error.code, err: error.cause ?? error }, error.message)
    if (outgoing.headersSent) return void outgoing.destroy()
    // Of a stream the error is its last message, so that the client reads what it says.
    if (calls.streaming[path.slice(1)] !== undefined && status !== 401) {
      outgoing.writeHead(200, { 'content-type': 'application/connect+json' })
      outgoing.end(endEnvelope(told))
    } else json(outgoing, status, told)
    finish(incoming, outgoing)
  }

  return {
    owns: (request) => targetOf(request) !== undefined,
    handle(incoming, outgoing) {
      const started = performance.now()
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      outgoing.setHeader('x-request-id', requestId)
      outgoing.once('close', () =>
        metrics.observe(incoming.method ?? '', 'compat/e2b', outgoing.statusCode, (performance.now() - started) / 1000),
      )
      const call = { incoming, outgoing, ...(targetOf(incoming) ?? { path: '', query: new URLSearchParams() }) }
      serve(call).catch((thrown: unknown) => fail(call, requestId, thrown))
    },
  }
}

/** The whole message, which comes within 30 s. */
async function bodyOf({ incoming, outgoing }: Call): Promise<Buffer> {
  if (incoming.headers.expect !== undefined) outgoing.writeContinue()
  const late = setTimeout(() => incoming.destroy(new Error('late')), MESSAGE_TIMEOUT_MS)
  const tooLong = (): Error => new BoxofficeError('PAYLOAD_TOO_LARGE', `a message must be at most ${MESSAGE_BYTES} bytes`)
  try {
    return await readAtMost(incoming, { limit: MESSAGE_BYTES, tooLong })
  } finally {
    clearTimeout(late)
  }
}

/** Everything runs as the sandbox's one user; E2B's clients may name it. */
function requireUser(incoming: IncomingMessage, query: URLSearchParams): void {
  const [, encoded = ''] = /^basic +(\S+)$/i.exec(incoming.headers.authorization ?? '') ?? []
  const user = query.get('username') ?? Buffer.from(encoded, 'base64').toString().split(':', 1)[0] ?? ''
  if (user !== '' && user !== 'user') throw unsupported(`user "${user.slice(0, 64)}"`, 'everything runs as the user of the sandbox')
}

function requireType(type: string | undefined, wanted: string): void {
  if (type !== wanted) throw new BoxofficeError('UNSUPPORTED_MEDIA_TYPE', `Content-Type must be ${wanted}`)
}

const secondsOrMs = (header: string | string[] | undefined): number | undefined => {
  const value = Number(header)
  return Number.isFinite(value) && value > 0 ? value : undefined
}

function json(outgoing: ServerResponse, status: number, body: object): void {
  outgoing.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(JSON.stringify(body))
}
