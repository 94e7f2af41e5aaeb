import { z } from 'zod'
import type { ZodOpenApiOperationObject, ZodOpenApiResponseObject } from 'zod-openapi'
import {
  ArchiveUploadResponse,
  DetachedExec,
  ExecRequest,
  ExecResult,
  ExecStateResponse,
  ExecSummary,
  FileEntry,
  FileRoot,
  LIMITS,
  ListExecsResponse,
  ListFilesResponse,
  ListPortsResponse,
  ListProcessesResponse,
  ManagedProcess,
  MkdirRequest,
  MkdirResponse,
  MoveRequest,
  MoveResponse,
  SignalRequest,
  StartProcessRequest,
  UploadResponse,
} from '../../../packages/protocol/src/index.ts'

/** What the document says of one route, apart from what follows from the route itself: its path parameter, credential and refusals. */
export type Described = Pick<ZodOpenApiOperationObject, 'requestBody' | 'responses'> & {
  summary: string
  description?: string
  query?: z.ZodObject
  header?: z.ZodObject
}

const BYTES = { type: 'string', description: 'bytes' } as const
const json = (schema: z.ZodType) => ({ 'application/json': { schema } })
const answer = (description: string, schema: z.ZodType): ZodOpenApiResponseObject => ({ description, content: json(schema) })
const body = (schema: z.ZodType) => ({ required: true, content: json(schema) })
const NOTHING: ZodOpenApiResponseObject = { description: 'Done' }

const path = z.string().describe('relative to the root that `root` names, or absolute')
const root = FileRoot.optional().describe('default: `workspace`')
const flag = (what: string) => z.enum(['true', 'false', '1', '0']).optional().describe(what)
const archive = z.literal('tar').optional()
const tag = (what: string) => z.string().optional().describe(what)

const EXEC: Described = {
  summary: 'Run a command',
  description: 'Give exactly one of `command` and `argv`. Its end is no refusal: whatever the exit code, the status is 200.',
  requestBody: body(ExecRequest),
  responses: { 200: answer('It has ended', ExecResult), 202: answer('With `detach`: it is there', DetachedExec) },
}

const UPLOAD: Described = {
  summary: 'Store a file or an archive',
  description: 'Nothing of a file is there until all of it is.',
  query: z.object({
    path,
    root,
    archive: archive.describe('the body is a tar archive for the directory `path`'),
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/)
      .optional()
      .describe('octal, as in 0644'),
    overwrite: flag('default: true'),
  }),
  header: z.object({
    'If-Match': tag('ETag of the version to replace'),
    'If-None-Match': tag('`*`: only where there is no such file'),
  }),
  requestBody: {
    required: true,
    content: {
      'application/octet-stream': { schema: BYTES },
      'multipart/form-data': { schema: { type: 'object', properties: { file: BYTES }, required: ['file'] } },
    },
  },
  responses: { 200: answer('It is there; of an archive with the number of its files', z.union([UploadResponse, ArchiveUploadResponse])) },
}

const versionHeaders = { ETag: z.string(), 'Last-Modified': z.string() }
const fileHeaders = { ...versionHeaders, 'Content-Length': z.int(), 'Accept-Ranges': z.literal('bytes') }
const DOWNLOAD: Described = {
  summary: 'Read a file, or a directory as an archive',
  query: z.object({ path, root, archive: archive.describe('the directory `path` as a tar archive') }),
  header: z.object({
    Range: tag('one range of bytes'),
    'If-Range': tag('ETag or date: the range of this version, else the whole file'),
    'If-None-Match': tag('ETags'),
    'If-Modified-Since': tag('a date'),
  }),
  responses: {
    200: {
      description: 'The file, or the archive, which has none of the headers',
      headers: z.object(fileHeaders).partial(),
      content: { 'application/octet-stream': { schema: BYTES }, 'application/x-tar': { schema: BYTES } },
    },
    206: {
      description: 'The range',
      headers: z.object({ ...fileHeaders, 'Content-Range': z.string() }),
      content: { 'application/octet-stream': { schema: BYTES } },
    },
    304: { description: 'The client has this version', headers: z.object(versionHeaders) },
  },
}

const EndedExec = ExecSummary.extend(ExecResult.shape)

/** By `METHOD path` of the route table. The aliases are not here: they are described with what they stand for. */
export const OPERATIONS: Readonly<Record<string, Described>> = {
  'POST exec': EXEC,
  'GET execs': {
    summary: 'List execs and shells',
    query: z.object({ state: z.enum(['running', 'exited', 'all']).optional().describe('default: `all`') }),
    responses: { 200: answer('Those that run, and those that ended lately', ListExecsResponse) },
  },
  'GET execs/:id': {
    summary: 'Read an exec or shell',
    responses: { 200: answer('After its end with its result', z.union([ExecSummary, EndedExec])) },
  },
  'GET execs/:id/output': {
    summary: 'Read kept output of one stream',
    query: z.object({
      stream: z.enum(['stdout', 'stderr']).optional().describe('default: `stdout`'),
      offset: z.int().min(0).optional().describe('default: 0'),
      limit: z.int().min(1).max(LIMITS.ringBytes).optional().describe('bytes; default: the maximum'),
      wait: z.int().min(0).max(30).optional().describe('seconds to wait for the first byte; default: 0'),
    }),
    responses: {
      200: {
        description: 'Bytes from `X-Stream-Offset` on',
        headers: z.object({
          'X-Stream-Offset': z.int(),
          'X-Stream-Next-Offset': z.int(),
          'X-Stream-Oldest-Offset': z.int(),
          'X-Stream-Eof': z.enum(['true', 'false']),
          'X-Stream-Gap': z
            .string()
            .regex(/^\d+-\d+$/)
            .optional()
            .describe('where bytes that were asked for are not kept any more'),
        }),
        content: { 'application/octet-stream': { schema: BYTES } },
      },
    },
  },
  'GET execs/:id/state': {
    summary: 'Ask whether an exec or shell is there',
    description: 'Answers within a second and wakes no sandbox.',
    responses: { 200: answer('Its state', ExecStateResponse) },
  },
  'POST execs/:id/signal': { summary: 'Send a signal', requestBody: body(SignalRequest), responses: { 204: NOTHING } },
  'POST processes': {
    summary: 'Start a managed process',
    requestBody: body(StartProcessRequest),
    responses: { 201: answer('It runs', ManagedProcess) },
  },
  'GET processes': { summary: 'List managed processes', responses: { 200: answer('All that are known', ListProcessesResponse) } },
  'GET processes/:id': { summary: 'Read a managed process', responses: { 200: answer('The process', ManagedProcess) } },
  'DELETE processes/:id': { summary: 'Stop a managed process', responses: { 204: NOTHING } },
  'POST files/upload': UPLOAD,
  'GET files/download': DOWNLOAD,
  'GET files': {
    summary: 'List files',
    query: z.object({
      path: path.optional().describe('a directory; default: the root'),
      root,
      type: z.enum(['file', 'any']).optional().describe('default: `file`'),
      depth: z.int().min(1).max(1000).optional().describe('default: all levels'),
      limit: z.int().min(1).max(10_000).optional().describe('entries of a page; default: 1000'),
      pattern: z.string().max(1024).optional().describe('a glob; without a slash for names at any depth'),
      cursor: z.string().optional().describe('`next_cursor` of the page before'),
    }),
    responses: { 200: answer('One page', ListFilesResponse) },
  },
  'GET files/stat': {
    summary: 'Look at a file',
    query: z.object({ path, root, follow: flag('a link: what it leads to; default: false') }),
    responses: { 200: { ...answer('What it is', FileEntry), headers: z.object({ ETag: z.string() }) } },
  },
  'DELETE files': {
    summary: 'Remove a file or directory',
    query: z.object({ path, root, recursive: flag('a directory with all in it; default: false') }),
    responses: { 204: NOTHING },
  },
  'POST files/mkdir': {
    summary: 'Make a directory',
    query: z.object({ root }),
    requestBody: body(MkdirRequest),
    responses: { 200: answer('It is there', MkdirResponse) },
  },
  'POST files/move': {
    summary: 'Move a file or directory',
    query: z.object({ root }),
    requestBody: body(MoveRequest),
    responses: { 200: answer('It is moved', MoveResponse) },
  },
  'GET ports': {
    summary: 'List listening ports',
    responses: { 200: answer('TCP ports on which somebody listens, on the loopback or every address', ListPortsResponse) },
  },
  'GET ping': { summary: 'Ask whether the agent can be reached', responses: { 204: NOTHING } },
}

/** Schemas that have a name in the document. */
export const NAMED_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  ArchiveUploadResponse,
  DetachedExec,
  ExecRequest,
  ExecResult,
  ExecStateResponse,
  EndedExec,
  ExecSummary,
  FileEntry,
  ListExecsResponse,
  ListFilesResponse,
  ListPortsResponse,
  ListProcessesResponse,
  ManagedProcess,
  MkdirRequest,
  MkdirResponse,
  MoveRequest,
  MoveResponse,
  SignalRequest,
  StartProcessRequest,
  UploadResponse,
}

/** Routes of another shape of the same operations (contract 7.4), by what they stand for. */
export const ALIASES: Readonly<Record<string, string>> = {
  'POST execute': 'POST exec',
  'POST upload': 'POST files/upload',
  'GET download': 'GET files/download',
}
