import { VERSION } from '@boxoffice/kit/version'
import { ErrorEnvelope } from '@boxoffice/protocol'
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiMediaTypeObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import type { AnyRoute } from '../../http/route.ts'
import type { Surface } from '../../http/surface.ts'

/** The OpenAPI document of all that the surfaces serve below `publicUrl`, from the very schemas that check requests. */
export const describe = (surfaces: readonly Surface[], publicUrl: string): object =>
  createDocument({
    openapi: '3.1.0',
    info: { title: 'Boxoffice broker', version: VERSION, description: 'Sandbox Session Access Protocol, control plane' },
    servers: [{ url: publicUrl }],
    paths: pathsOf(surfaces),
    components: {
      schemas: { Error: ErrorEnvelope },
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
      },
    },
  })

function pathsOf(surfaces: readonly Surface[]): ZodOpenApiPathsObject {
  const paths: ZodOpenApiPathsObject = {}
  for (const route of surfaces.flatMap(({ routes = [] }) => routes)) {
    const path = route.path.replace(PARAMETER, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  for (const { described } of surfaces.flatMap(({ mounts = [] }) => mounts))
    for (const [path, operations] of Object.entries(described ?? {})) paths[path] = withRefusals(operations)
  return paths
}

const PARAMETER = /:(\w+)/g

function operation({ summary, path, query, headers, body, responses, auth }: AnyRoute): ZodOpenApiOperationObject {
  const requestParams = {
    ...(path.includes(':') && {
      path: z.object(Object.fromEntries([...path.matchAll(PARAMETER)].map(([, name = '']) => [name, z.string()]))),
    }),
    ...(query !== undefined && { query }),
    ...(headers !== undefined && { header: z.object(Object.fromEntries(Object.entries(headers).map(optionalText))) }),
  }
  return {
    summary,
    ...(Object.keys(requestParams).length > 0 && { requestParams }),
    ...(body !== undefined && { requestBody: { content: { 'application/json': { schema: body } } } }),
    responses: { ...Object.fromEntries(Object.entries(responses).map(([status, spec]) => [status, response(spec)])), default: refused },
    security: auth === 'none' ? [] : SECURITY,
  }
}

/** What a mounted app is described with leaves out what holds for all: who may call, and how a refusal reads. */
const withRefusals = (operations: Record<string, ZodOpenApiOperationObject>): Record<string, ZodOpenApiOperationObject> =>
  Object.fromEntries(
    Object.entries(operations).map(([method, { responses, ...rest }]) => [
      method,
      { ...rest, responses: { ...responses, default: refused }, security: SECURITY },
    ]),
  )

const SECURITY: Record<string, string[]>[] = [{ key: [] }, { apiKey: [] }]
const refused: ZodOpenApiResponseObject = { description: 'Refused', content: { 'application/json': { schema: ErrorEnvelope } } }

const optionalText = ([name, description]: [string, string]) => [name, z.string().optional().describe(description)] as const

function response({ description, schema, contentType }: AnyRoute['responses'][number]): ZodOpenApiResponseObject {
  const text: ZodOpenApiMediaTypeObject = { schema: { type: 'string' } }
  if (schema !== undefined) return { description, content: { 'application/json': { schema } } }
  return contentType === undefined ? { description } : { description, content: { [contentType]: text } }
}
