import { ErrorEnvelope } from '@boxoffice/protocol'
import { z } from 'zod'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { Surface } from '../../http/surface.ts'
import { docsHeaders, docsPage } from './page.ts'

const VERSION = '0.1.0'

/** `/openapi.json` and `/docs`, from the very schemas that check the requests. */
export function createDocumentation(surfaces: readonly Surface[], publicUrl: string): Surface {
  const own: AnyRoute[] = [
    defineRoute({
      method: 'GET',
      path: '/openapi.json',
      summary: 'This description',
      auth: 'none',
      responses: { 200: { description: 'OpenAPI 3.1' } },
      handle: () => ({ status: 200, json: { ...document(), servers: [{ url: publicUrl }] } }),
    }),
    defineRoute({
      method: 'GET',
      path: '/docs',
      summary: 'This description, to read',
      auth: 'none',
      responses: { 200: { description: 'A page that needs nothing from elsewhere', contentType: 'text/html' } },
      handle: () => ({
        status: 200,
        text: docsPage({ title: 'Boxoffice API', api: '/openapi.json', intro: 'Send <code>Authorization: Bearer &lt;API key&gt;</code>.' }),
        headers: docsHeaders,
      }),
    }),
  ]
  let built: object | undefined
  const document = () => (built ??= describe([...surfaces.flatMap(({ routes = [] }) => routes), ...own]))
  return { name: 'documentation', routes: own }
}

function describe(routes: readonly AnyRoute[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.path.replace(':id', '{id}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Boxoffice broker', version: VERSION, description: 'Sandbox Session Access Protocol, control plane' },
    paths,
    components: {
      schemas: { Error: schemaOf(ErrorEnvelope, 'output') },
      securitySchemes: { key: { type: 'http', scheme: 'bearer' }, apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } },
    },
  }
}

function operation(route: AnyRoute): object {
  const parameters = [
    ...(route.path.includes(':id') ? [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }] : []),
    ...queryParameters(route),
    ...Object.entries(route.headers ?? {}).map(([name, description]) => ({ name, in: 'header', description, schema: { type: 'string' } })),
  ]
  return {
    summary: route.summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined ? {} : { requestBody: { content: json(schemaOf(route.body, 'input')) } }),
    responses: {
      ...Object.fromEntries(Object.entries(route.responses).map(([status, spec]) => [status, response(spec)])),
      default: { description: 'Refused', content: json({ $ref: '#/components/schemas/Error' }) },
    },
    security: route.auth === 'none' ? [] : [{ key: [] }, { apiKey: [] }],
  }
}

function response({ description, schema, contentType }: AnyRoute['responses'][number]): object {
  if (schema !== undefined) return { description, content: json(schemaOf(schema, 'output')) }
  return contentType === undefined ? { description } : { description, content: { [contentType]: { schema: { type: 'string' } } } }
}

function queryParameters({ query }: AnyRoute): object[] {
  if (query === undefined) return []
  const { properties = {}, required = [] } = schemaOf(query, 'input') as { properties?: Record<string, object>; required?: string[] }
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'query', required: required.includes(name), schema }))
}

const json = (schema: object): object => ({ 'application/json': { schema } })

const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): object => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}
