import { ToolServers } from '@boxoffice/mcp'
import { BoxofficeError } from '@boxoffice/protocol'
import { createMcpHandler } from '@modelcontextprotocol/server'
import type { Context } from 'hono'
import type { ResolvedBrokerConfig } from '../../config/config.ts'
import { clientAddress } from '../../http/address.ts'
import { readJson } from '../../http/body.ts'
import type { Env } from '../../http/env.ts'
import { envelopeOf, type RefusalSinks } from '../../http/errors.ts'
import type { Surface } from '../../http/surface.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import { type KnownCallers, knownCallers } from '../facade/callers.ts'
import { Cancellations, type Exchange } from './cancellations.ts'
import { ownNetwork } from './own-network.ts'

export type McpToolsOptions = RefusalSinks &
  Omit<KnownCallers, 'addressOf'> & {
    settings: Pick<ResolvedBrokerConfig, 'trustedProxies'>
    /** The broker's public URL. */
    url: string
    /** Where the broker reaches itself, without TLS. */
    localUrl: string
  }

/** What a request brings beside its credential. */
type Asked = { thread: string | undefined; exchange: Exchange }

const PATH = '/mcp'
/** Which thread's sandbox the tools use: a header, or `?thread=` in the URL. */
const THREAD_HEADER = 'x-boxoffice-thread'
const SESSION_HEADER = 'mcp-session-id'
/** A file of 10 MiB as base64, and what is around it. */
const MAX_BODY_BYTES = 16 * 1024 * 1024
const MAX_BATCH = 100

/**
 * The broker as an MCP server, by streamable HTTP: commands and files of a thread's sandbox as tools (contract 2.12). It calls the
 * broker's own API with the caller's credential, so it may do what the caller may, and audit names the caller.
 */
export function createMcpTools(options: McpToolsOptions): Surface {
  const { settings, principals, authFailures, controlLimit, url, localUrl, metrics, log } = options
  const report = (error: Error): void => log.error({ err: error }, 'the MCP server failed')
  const servers = new ToolServers({ brokerUrl: localUrl, ...ownNetwork(url, localUrl), onerror: report })
  const cancellations = new Cancellations()
  const handler = createMcpHandler(
    ({ authInfo, requestInfo }) => {
      if (authInfo === undefined) throw new Error('a request came without its caller')
      const { thread, exchange } = authInfo.extra as Asked
      const server = servers.server({ credential: authInfo.token, thread, signal: requestInfo?.signal })
      server.onclose = exchange.end
      return server
    },
    { maxRequestBodySize: MAX_BODY_BYTES },
  )
  const callerOf = knownCallers({ principals, authFailures, controlLimit, addressOf: clientAddress(settings.trustedProxies) })
  const { app } = surfaceApp({ metrics, log, route: 'mcp-tools', render: envelopeOf })
  app.all('*', async (c) => {
    const { principal } = await callerOf(c)
    if (new URL(c.req.url).pathname !== '/') throw new BoxofficeError('NOT_FOUND', `there is no such route; the MCP server is at ${PATH}`)
    const parsedBody = c.req.method === 'POST' ? await readJson(c.req, MAX_BODY_BYTES) : undefined
    if (Array.isArray(parsedBody) && parsedBody.length > MAX_BATCH)
      throw new BoxofficeError('INVALID_REQUEST', `a batch has at most ${MAX_BATCH} messages`)
    const exchange = cancellations.begin(parsedBody, principal, c.req.header(SESSION_HEADER))
    const { method, headers, signal } = c.req.raw
    const request = new Request(c.req.url, { method, headers, signal: AbortSignal.any([signal, exchange.signal]) })
    const authInfo = {
      token: principal.credential.reveal(),
      clientId: principal.id,
      scopes: [],
      extra: { thread: threadOf(c), exchange } satisfies Asked,
    }
    const response = await handler.fetch(request, { authInfo, ...(parsedBody === undefined ? {} : { parsedBody }) })
    if (exchange.sessionId !== undefined) response.headers.set(SESSION_HEADER, exchange.sessionId)
    return response
  })
  return {
    name: 'mcp-tools',
    mounts: [{ path: PATH, app }],
    async close() {
      servers.close()
      await handler.close()
    },
  }
}

function threadOf(c: Context<Env>): string | undefined {
  const [named, queried] = [c.req.header(THREAD_HEADER), c.req.query('thread')]
  if (named !== undefined && queried !== undefined && named !== queried)
    throw new BoxofficeError('INVALID_REQUEST', `thread: ${THREAD_HEADER} and ?thread= name different threads; send one`)
  return named ?? queried
}
