import { markAuthenticated } from '@boxoffice/node-http'
import type { Context, Hono } from 'hono'
import { credentialOf } from '../../../http/auth.ts'
import type { Env } from '../../../http/env.ts'
import { envelopeOf, type RefusalSinks } from '../../../http/errors.ts'
import { surfaceApp } from '../../../http/surface-app.ts'
import type { BrokerTokens } from '../../../tokens/broker-tokens.ts'

/** What this broker does for others, with the servers that it has. */
export interface ForPeers {
  /** Answers a request for the endpoint of a server that runs in the session. */
  serve(name: string, sid: string | null, request: Request): Promise<Response>
  begin(name: string): Promise<void>
  end(name: string): Promise<void>
}

export type PeerAppOptions = RefusalSinks & { tokens: Pick<BrokerTokens, 'verify'>; servers: ForPeers }

/** Routes for other brokers of the database alone: no credential of a user is any good here. */
export function createPeerApp({ tokens, servers, metrics, log }: PeerAppOptions): Hono<Env> {
  const { app } = surfaceApp({ metrics, log, route: 'internal/mcp', render: envelopeOf })
  const authenticated = async (c: Context<Env>): Promise<string | null> => {
    const token = credentialOf((name) => c.req.header(name)).reveal()
    const { pathname } = new URL(c.req.raw.url)
    const sid = await tokens.verify(token, { method: c.req.method, path: pathname })
    const socket = c.env?.incoming?.socket
    if (socket !== undefined) markAuthenticated(socket, undefined)
    return sid
  }
  return app
    .all('/:name/mcp', async (c) => servers.serve(c.req.param('name'), await authenticated(c), c.req.raw))
    .post('/:name', async (c) => {
      await authenticated(c)
      await servers.begin(c.req.param('name'))
      return c.body(null, 204)
    })
    .delete('/:name', async (c) => {
      await authenticated(c)
      await servers.end(c.req.param('name'))
      return c.body(null, 204)
    })
}
