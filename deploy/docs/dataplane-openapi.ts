// `npm run docs` writes docs/protocol/dataplane.openapi.json: the routes of the agent's dataplane, with the schemas of packages/protocol.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiRequestBodyObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import { dataplaneRoutes } from '../../apps/agent/src/dataplane/app.ts'
import { SignalRequest } from '../../apps/agent/src/dataplane/exec.ts'
import type { Route } from '../../apps/agent/src/http/router.ts'
import { ErrorEnvelope } from '../../packages/protocol/src/base/errors.ts'
import { LIMITS } from '../../packages/protocol/src/base/limits.ts'
import { ExecRequest, ExecResult, ExecSummary, ListExecsResponse, SIGNALS, Signal } from '../../packages/protocol/src/dataplane/exec.ts'
import {
  FileEntry,
  FileRoot,
  ListFilesResponse,
  MkdirRequest,
  MoveRequest,
  UploadResponse,
} from '../../packages/protocol/src/dataplane/files.ts'
import { ListProcessesResponse, ManagedProcess, StartProcessRequest } from '../../packages/protocol/src/dataplane/processes.ts'

export const DATAPLANE_DOCUMENT = join(import.meta.dirname, '../../docs/protocol/dataplane.openapi.json')

type Described = {
  summary: string
  query?: z.ZodObject
  headers?: z.ZodObject
  body?: ZodOpenApiRequestBodyObject
  responses: Record<number, ZodOpenApiResponseObject>
}

const json = (description: string, schema: z.ZodType): ZodOpenApiResponseObject => ({
  description,
  content: { 'application/json': { schema } },
})
const jsonBody = (schema: z.ZodType): ZodOpenApiRequestBodyObject => ({ required: true, content: { 'application/json': { schema } } })
const bytes = { schema: { type: 'string', format: 'binary' } } as const

const flag = (description: string) => z.enum(['true', 'false', '1', '0']).optional().describe(description)
const integer = (min: number, max: number, description: string) => z.number().int().min(min).max(max).optional().describe(description)
const text = (description: string) => z.string().optional().describe(description)
const root = FileRoot.optional().describe('which tree the path is in; by default the workspace')
const path = z.string().describe('path in the tree; bytes that are not UTF-8 as the page on files says')
const archive = z.literal('tar').optional().describe('tar: the body is an archive of a directory')

const exec: Described = {
  summary: 'Run a command to its end; with detach, only start it',
  body: jsonBody(ExecRequest),
  responses: {
    200: json('How it ended, and its output', ExecResult),
    202: json('With detach: it has been started', z.object({ exec_id: z.string(), state: z.enum(['running', 'exited']) })),
  },
}
const upload: Described = {
  summary: 'Write one file, or with archive=tar a tree; nothing of a file is there until all of it is',
  query: z.object({
    ...{ path, root, archive },
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/)
      .optional()
      .describe('octal, as in 0644'),
    overwrite: flag('false: 412 where there is something already'),
  }),
  headers: z.object({ 'If-Match': text('Write only over this version'), 'If-None-Match': text('*: write only where there is nothing') }),
  body: {
    required: true,
    content: {
      'application/octet-stream': bytes,
      'multipart/form-data': { schema: { type: 'object', required: ['file'], properties: { file: { type: 'string', format: 'binary' } } } },
    },
  },
  responses: {
    200: json('It is there', UploadResponse.extend({ files: z.number().int().optional().describe('of an archive: how many') })),
  },
}
const download: Described = {
  summary: 'Read one file, or with archive=tar a tree; HEAD gives the headers alone',
  query: z.object({ path, root, archive }),
  headers: z.object({
    Range: text('One range of bytes'),
    'If-Range': text('Send the range only of this version'),
    'If-None-Match': text('304 for this version'),
    'If-Modified-Since': text('304 for what is not younger'),
  }),
  responses: {
    200: { description: 'The file', content: { 'application/octet-stream': bytes, 'application/x-tar': bytes } },
    206: { description: 'The range', content: { 'application/octet-stream': bytes } },
    304: { description: 'The client has this version' },
  },
}

/** By method and path as they stand in the route table. */
const OPERATIONS: Readonly<Record<string, Described>> = {
  'POST exec': exec,
  'POST execute': exec,
  'GET execs': {
    summary: 'List execs and shells that run or have ended lately',
    query: z.object({ state: z.enum(['running', 'exited', 'all']).optional() }),
    responses: { 200: json('All that are known', ListExecsResponse) },
  },
  'GET execs/:id': {
    summary: 'One exec; its result once it has ended',
    responses: {
      200: json('While it runs the first, then the second', z.union([ExecSummary, ExecSummary.extend(ExecResult.shape)])),
    },
  },
  'GET execs/:id/output': {
    summary: 'Read output from an offset; X-Stream-Offset, -Next-Offset, -Oldest-Offset, -Eof and -Gap say where in the stream it is',
    query: z.object({
      stream: z.enum(['stdout', 'stderr']).optional(),
      offset: integer(0, Number.MAX_SAFE_INTEGER, 'first byte that is wanted'),
      limit: integer(1, LIMITS.ringBytes, 'most bytes'),
      wait: integer(0, 30, 'seconds to wait for output'),
    }),
    responses: { 200: { description: 'Bytes of the stream', content: { 'application/octet-stream': bytes } } },
  },
  'POST execs/:id/signal': {
    summary: 'Send a signal to an exec',
    body: jsonBody(SignalRequest),
    responses: { 204: { description: 'It was sent' } },
  },
  'GET execs/:id/state': {
    summary: 'Whether an exec runs; answered within a second, wakes nothing',
    responses: {
      200: json(
        'unknown: the sandbox sleeps',
        z.object({ exec_id: z.string(), state: z.enum(['running', 'exited', 'missing', 'unknown']) }),
      ),
    },
  },
  'GET ping': { summary: 'Whether the way to the agent is open', responses: { 204: { description: 'It is' } } },
  'POST files/upload': upload,
  'POST upload': upload,
  'GET files/download': download,
  'GET download': download,
  'GET files': {
    summary: 'List a tree',
    query: z.object({
      ...{ path: text('directory; by default the root of the tree'), root },
      type: z.enum(['file', 'any']).optional().describe('by default files alone'),
      depth: integer(1, 1000, 'levels; by default all'),
      limit: integer(1, 10_000, 'entries of a page; by default 1000'),
      cursor: text('next_cursor of the page before'),
      pattern: z.string().max(1024).optional().describe('glob; without a slash it is for names at any depth'),
    }),
    responses: { 200: json('One page', ListFilesResponse) },
  },
  'GET files/stat': {
    summary: 'What is at a path; the ETag header is its version',
    query: z.object({ path, root, follow: flag('true: what a link points to') }),
    responses: { 200: json('The entry', FileEntry) },
  },
  'DELETE files': {
    summary: 'Remove a file or a directory',
    query: z.object({ path, root, recursive: flag('true: with all that is in it') }),
    responses: { 204: { description: 'It is gone' } },
  },
  'POST files/mkdir': {
    summary: 'Make a directory',
    query: z.object({ root }),
    body: jsonBody(MkdirRequest),
    responses: { 200: json('It is there', z.object({ path: z.string(), created: z.boolean() })) },
  },
  'POST files/move': {
    summary: 'Move a file or a directory within its tree',
    query: z.object({ root }),
    body: jsonBody(MoveRequest),
    responses: { 200: json('It was moved', z.object({ from: z.string(), to: z.string() })) },
  },
  'POST processes': {
    summary: 'Start a managed process',
    body: jsonBody(StartProcessRequest),
    responses: { 201: json('It runs', ManagedProcess) },
  },
  'GET processes': { summary: 'List managed processes', responses: { 200: json('All that are known', ListProcessesResponse) } },
  'GET processes/:id': { summary: 'One managed process', responses: { 200: json('The process', ManagedProcess) } },
  'DELETE processes/:id': { summary: 'Stop a managed process', responses: { 204: { description: 'It has ended' } } },
}

const refused = json('Refused', ErrorEnvelope)
const refusedAlias = json('Refused', ErrorEnvelope.extend({ error_type: z.string(), message: z.string() }))

function operation({ method, path, requires, alias }: Route): ZodOpenApiOperationObject {
  const described = OPERATIONS[`${method} ${path}`]
  if (described === undefined) throw new Error(`${method} ${path} is not described in deploy/docs/dataplane-openapi.ts`)
  const { summary, query, headers, body, responses } = described
  const requestParams = {
    ...(path.includes(':id') && { path: z.object({ id: z.string() }) }),
    ...(query !== undefined && { query }),
    ...(headers !== undefined && { header: headers }),
  }
  return {
    summary,
    description: requires === null ? 'Any valid token.' : `Takes the capability ${requires}.`,
    ...(alias && { deprecated: true }),
    ...(Object.keys(requestParams).length > 0 && { requestParams }),
    ...(body !== undefined && { requestBody: body }),
    responses: { ...responses, default: alias ? refusedAlias : refused },
  }
}

/** The document as it stands in `docs/protocol`. Throws where a route is not described, or a description has no route. */
export function dataplaneDocument(): string {
  const known = new Set(dataplaneRoutes.map(({ method, path }) => `${method} ${path}`))
  const stale = Object.keys(OPERATIONS).filter((name) => !known.has(name))
  if (stale.length > 0) throw new Error(`no such routes: ${stale.join(', ')}`)
  const paths: ZodOpenApiPathsObject = {}
  for (const route of dataplaneRoutes) {
    const at = `/${route.path.replace(':id', '{id}')}`
    paths[at] = { ...paths[at], [route.method.toLowerCase()]: operation(route) }
  }
  const document = createDocument(
    {
      openapi: '3.1.0',
      info: {
        title: 'Boxoffice dataplane',
        version: '1',
        description:
          'Sandbox Session Access Protocol, dataplane: what an agent, or the relay of the broker, serves below http_base_url of a session. ' +
          'Sockets are described in sockets.md and processes.md.',
      },
      servers: [{ url: '{http_base_url}', variables: { http_base_url: { default: 'http://127.0.0.1:7071/sandboxes/sbx_0/v1' } } }],
      paths,
      security: [{ token: [] }, { apiKey: [] }],
      components: {
        schemas: { Error: ErrorEnvelope, ExecRequest, ExecResult, ExecSummary, FileEntry, ManagedProcess },
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', description: 'The session token' },
          apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'The session token' },
        },
      },
    },
    {
      // It reads names with and without SIG.
      override({ zodSchema, jsonSchema }) {
        if ((zodSchema as unknown) === Signal)
          Object.assign(jsonSchema, { type: 'string', enum: SIGNALS.flatMap((name) => [name, `SIG${name}`]) })
      },
    },
  )
  return `${JSON.stringify(document, null, 2)}\n`
}

if (import.meta.main) {
  writeFileSync(DATAPLANE_DOCUMENT, dataplaneDocument())
  process.stdout.write('docs/protocol/dataplane.openapi.json\n')
}
