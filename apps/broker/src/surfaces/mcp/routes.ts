import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { isRootOperator, type Principal, ROOT_TENANT } from '../../access/principals.ts'
import { imageRefused, type MayNameImage } from '../../config/images.ts'
import { McpServerConfig } from '../../config/mcp-server.ts'
import { waitSeconds } from '../../http/prefer.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import { ERROR_PHASES } from './phases.ts'
import type { Servers, ServerView } from './servers.ts'

/** Below it stand the servers, by their names. */
export const SERVERS_PATH = '/v1/mcp/servers'

const ServerRecord = z.object({
  name: z.string(),
  pipeline_uuid: z.string(),
  status: z.enum(['starting', 'connected', 'retrying', 'unavailable', 'error', 'stopped']),
  error_message: z.string().nullable(),
  error_phase: z.enum(ERROR_PHASES).nullable(),
  retry_count: z.number().int(),
  tool_count: z.number().int(),
  tools: z.array(z.object({ name: z.string(), description: z.string() })).readonly(),
  /** The thread of its session: who may use that one gets tokens for the endpoint by negotiating it. */
  box_session_id: z.string(),
  box_enabled: z.boolean(),
  warnings: z.array(z.string()).readonly(),
  /** What keeps it in; null before it has a sandbox. */
  isolation: z.string().nullable(),
  session_id: z.string().nullable(),
  /** Streamable HTTP, behind a token of `session_id`. */
  url: z.string(),
})

/** MCP servers in sandboxes (contract 4.6). They are the deployment's: keys of other tenants see none. */
export const mcpRoutes = (servers: Servers, brokerUrl: string, mayNameImage: MayNameImage): AnyRoute[] => {
  const toRecord = ({ name, pipelineUuid, info, box }: ServerView): z.infer<typeof ServerRecord> => ({
    name,
    pipeline_uuid: pipelineUuid,
    ...info,
    isolation: box?.isolation ?? null,
    session_id: box?.sessionId ?? null,
    url: `${brokerUrl}${SERVERS_PATH}/${encodeURIComponent(name)}/mcp`,
  })
  return [
    defineRoute({
      method: 'GET',
      path: SERVERS_PATH,
      summary: 'List the MCP servers that run in sandboxes',
      auth: 'key',
      responses: { 200: { description: 'By name', schema: z.object({ servers: z.array(ServerRecord) }) } },
      async handle({ principal }) {
        const mine = principal.tenant === ROOT_TENANT ? await servers.list() : []
        return { status: 200, json: { servers: mine.map(toRecord).sort((a, b) => (a.name < b.name ? -1 : 1)) } }
      },
    }),
    defineRoute({
      method: 'POST',
      path: SERVERS_PATH,
      summary: 'Run one more MCP server in a sandbox; kept over restarts',
      auth: 'operator',
      body: McpServerConfig,
      headers: { Prefer: 'wait=N: seconds to wait until it works or has failed, 0 to 60; default 10' },
      responses: {
        200: { description: 'It is there already', schema: ServerRecord },
        201: { description: 'It is being started, or works', schema: ServerRecord },
      },
      async handle({ principal, body, header }) {
        requireRootOperator(principal)
        const { image } = body.box
        if (image !== null && !mayNameImage(image))
          throw new BoxofficeError('FORBIDDEN', imageRefused('box.image', image), { details: { field: 'box.image' } })
        const { isNew } = await servers.add(body)
        const server = await servers.settled(body.name, waitSeconds(header('prefer')) * 1000)
        return { status: isNew ? 201 : 200, json: toRecord(server) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${SERVERS_PATH}/:id`,
      summary: 'One MCP server, how it is and what it offers',
      auth: 'key',
      responses: { 200: { description: 'The server', schema: ServerRecord } },
      async handle({ principal, id }) {
        if (principal.tenant !== ROOT_TENANT) throw new BoxofficeError('NOT_FOUND', 'there is no such MCP server')
        return { status: 200, json: toRecord(await servers.get(id)) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${SERVERS_PATH}/:id`,
      summary: 'End an MCP server, its process, and its sandbox if it was the last one there',
      auth: 'operator',
      responses: { 204: { description: 'It has ended' } },
      async handle({ principal, id }) {
        requireRootOperator(principal)
        await servers.remove(id)
        return { status: 204 }
      },
    }),
  ]
}

/** They are given directories of the host. */
function requireRootOperator(principal: Principal): void {
  if (!isRootOperator(principal)) throw new BoxofficeError('FORBIDDEN', 'MCP servers are for operators of the deployment itself')
}
