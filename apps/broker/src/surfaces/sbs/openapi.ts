import { VERSION } from '@boxoffice/kit/version'
import { z } from 'zod'
import { createDocument, type ZodOpenApiResponseObject } from 'zod-openapi'

const Session = z.object({ session_id: z.uuid() })
const Step = z.object({
  sandbox_id: z.string().describe('Must be the session_id of the URL'),
  type: z.enum(['bash', 'python']),
  payload: z.union([z.object({ cmd: z.string() }), z.object({ code: z.string() })]).describe('cmd for bash, code for python'),
})
const StepResult = z.object({ output: z.string(), error: z.string(), exit_code: z.number().int() })
const Detail = z.object({ detail: z.string() })
const Details = z.object({
  detail: z.array(
    z.object({
      type: z.string(),
      loc: z.array(z.union([z.string(), z.number()])),
      msg: z.string(),
      input: z.unknown(),
      ctx: z.record(z.string(), z.unknown()).optional(),
    }),
  ),
})

const json = (description: string, schema: z.ZodType): ZodOpenApiResponseObject => ({
  description,
  content: { 'application/json': { schema } },
})
const noSession = json('No such session, or it was closed', Detail)
const requestParams = { path: z.object({ session_id: z.uuid() }) }

/** The description at `/openapi.json`: three operations, nothing else [3-24]. */
export const openapi = (serverUrl: string): object =>
  createDocument({
    openapi: '3.1.0',
    info: {
      title: 'session-based-sandbox',
      version: VERSION,
      description:
        'One session is one sandbox: a temporary directory and subprocesses. Run bash or Python steps in it; files last from step to step, ' +
        'variables and the current directory do not. Closing the session removes everything.',
    },
    servers: [{ url: serverUrl }],
    paths: {
      '/sessions': {
        post: {
          summary: 'Create a session and its directory',
          operationId: 'create_session',
          responses: { 200: json('The new session', Session) },
        },
      },
      '/sessions/{session_id}/step': {
        post: {
          summary: 'Run one bash or Python step',
          operationId: 'run_step',
          requestParams,
          requestBody: { required: true, content: { 'application/json': { schema: Step } } },
          responses: {
            200: json('How it ended; 124 when it timed out', StepResult),
            404: noSession,
            422: json('The step is not valid', Details),
          },
        },
      },
      '/sessions/{session_id}': {
        delete: {
          summary: 'Close a session, end its steps, remove its directory',
          operationId: 'close_session',
          requestParams,
          responses: { 204: { description: 'Closed' }, 404: noSession },
        },
      },
    },
    components: { schemas: { Session, Step, StepResult, Detail, Details } },
  })
