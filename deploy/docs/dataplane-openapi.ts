// `npm run docs` writes docs/protocol/dataplane.openapi.json from the route table of the agent and the schemas that check its requests.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject, type ZodOpenApiResponseObject } from 'zod-openapi'
import { dataplaneRoutes } from '../../apps/agent/src/dataplane/routes.ts'
import { socketPaths } from '../../apps/agent/src/ws/upgrade.ts'
import { ErrorEnvelope, SIGNALS, Signal } from '../../packages/protocol/src/index.ts'
import { ALIASES, type Described, NAMED_SCHEMAS, OPERATIONS } from './dataplane/operations.ts'
import { FRAME_SCHEMAS, SOCKETS } from './dataplane/sockets.ts'

type Route = (typeof dataplaneRoutes)[number]

export const DATAPLANE_DOCUMENT = join(import.meta.dirname, '../../docs/protocol/dataplane.openapi.json')
const SIGNAL_NAMES = SIGNALS.flatMap((name) => [name, `SIG${name}`])

/** Readers of the aliases find code and message at top level as well. */
const AliasError = ErrorEnvelope.extend({ error_type: z.string(), message: z.string() })

/** The text of the OpenAPI 3.1 document. Throws for a route without a description, and for a description without a route. */
export function dataplaneDocument(): string {
  const document = createDocument(
    {
      openapi: '3.1.0',
      info: {
        title: 'Boxoffice dataplane',
        version: '1',
        description: 'What an agent, or the relay before it, serves for one sandbox. `HEAD` is answered wherever `GET` is.',
      },
      servers: [
        {
          url: '{http_base_url}',
          variables: {
            http_base_url: { default: 'http://127.0.0.1:7080/sandboxes/sb_0/v1', description: '`http_base_url` of a negotiated session' },
          },
        },
      ],
      security: [{ token: [] }, { apiKey: [] }],
      paths: paths(),
      components: {
        schemas: { Error: ErrorEnvelope, AliasError, ...NAMED_SCHEMAS, ...FRAME_SCHEMAS },
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'The token of a negotiated session' },
          apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'The same token' },
        },
      },
    },
    {
      override: ({ jsonSchema, zodSchema }) => {
        if ((zodSchema as unknown) === Signal) jsonSchema.enum = SIGNAL_NAMES
        // What every integer of JavaScript keeps to says nothing.
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
        // A newer agent may say more.
        if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
      },
    },
  )
  return `${JSON.stringify(document, null, 2)}\n`
}

function paths(): ZodOpenApiPathsObject {
  const found: ZodOpenApiPathsObject = {}
  const used = new Set<string>()
  for (const route of dataplaneRoutes) {
    const name = `${route.method} ${route.path}`
    const canonical = ALIASES[name] ?? name
    const path = templateOf(route.path)
    found[path] = { ...found[path], [route.method.toLowerCase()]: httpOperation(route, described(OPERATIONS, canonical), canonical) }
    used.add(canonical)
  }
  for (const path of socketPaths) {
    found[templateOf(path)] = { get: socketOperation(path) }
    used.add(path)
  }
  const unused = [...Object.keys(OPERATIONS), ...Object.keys(SOCKETS)].filter((name) => !used.has(name))
  if (unused.length > 0) throw new Error(`described, but no route: ${unused.join(', ')}`)
  return found
}

function described<T>(all: Readonly<Record<string, T>>, name: string): T {
  const one = all[name]
  if (one === undefined) throw new Error(`the route ${name} is not described in deploy/docs/dataplane`)
  return one
}

function templateOf(path: string): string {
  return `/${path.replace(':id', '{id}')}`
}

function httpOperation(route: Route, operation: Described, canonical: string): ZodOpenApiOperationObject {
  const { query, header, responses, ...rest } = operation
  const alias = route.alias === true ? `The same as \`${canonical}\`; \`root\` is \`sandbox\` by default where the sandbox has one. ` : ''
  const description = `${alias}${rest.description ?? ''}`.trim()
  return {
    ...rest,
    ...(description !== '' && { description }),
    ...parameters(route.path, { ...(query !== undefined && { query }), ...(header !== undefined && { header }) }),
    'x-requires': route.requires ?? 'no capability',
    responses: { ...responses, default: refused(route.alias === true ? AliasError : ErrorEnvelope) },
  }
}

function socketOperation(path: string): ZodOpenApiOperationObject {
  const { summary, description, query, subprotocols, client, server } = described(SOCKETS, path)
  const references = (names: readonly string[]) => names.map((name) => ({ $ref: `#/components/schemas/${name}` }))
  const header = z.object({
    Upgrade: z.literal('websocket'),
    'Sec-WebSocket-Protocol': z
      .string()
      .optional()
      .describe(`some of ${subprotocols.map((name) => `\`${name}\``).join(', ')}`),
  })
  return {
    summary,
    description,
    ...parameters(path, { ...(query !== undefined && { query }), header }),
    'x-requires': path.startsWith('shell') ? 'shell' : path.startsWith('ports') ? 'ports' : 'exec',
    'x-frames': { client: references(client), server: references(server) },
    // Where frames can carry the token, the upgrade needs none.
    security: [{ token: [] }, { apiKey: [] }, ...(/^(?:processes|ports)/.test(path) ? [] : [{}])],
    responses: { 101: { description: 'The WebSocket is open' }, default: refused(ErrorEnvelope) },
  }
}

function parameters(path: string, rest: { query?: z.ZodObject; header?: z.ZodObject }): Pick<ZodOpenApiOperationObject, 'requestParams'> {
  const requestParams = { ...(path.includes(':id') && { path: z.object({ id: z.string() }) }), ...rest }
  return Object.keys(requestParams).length === 0 ? {} : { requestParams }
}

function refused(schema: z.ZodType): ZodOpenApiResponseObject {
  return { description: 'Refused', content: { 'application/json': { schema } } }
}

if (import.meta.main) {
  writeFileSync(DATAPLANE_DOCUMENT, dataplaneDocument())
  process.stdout.write('docs/protocol/dataplane.openapi.json\n')
}
