/** The description at `/openapi.json`: three operations, nothing else [3-24]. */
export const openapi = (serverUrl: string): object => ({
  openapi: '3.1.0',
  info: {
    title: 'session-based-sandbox',
    version: '0.1.0',
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
        responses: { 200: json('The new session', ref('Session')) },
      },
    },
    '/sessions/{session_id}/step': {
      post: {
        summary: 'Run one bash or Python step',
        operationId: 'run_step',
        parameters: [sessionId],
        requestBody: { required: true, content: { 'application/json': { schema: ref('Step') } } },
        responses: {
          200: json('How it ended; 124 when it timed out', ref('StepResult')),
          404: json('No such session, or it was closed', ref('Detail')),
          422: json('The step is not valid', ref('Details')),
        },
      },
    },
    '/sessions/{session_id}': {
      delete: {
        summary: 'Close a session, end its steps, remove its directory',
        operationId: 'close_session',
        parameters: [sessionId],
        responses: { 204: { description: 'Closed' }, 404: json('No such session, or it was closed', ref('Detail')) },
      },
    },
  },
  components: { schemas },
})

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` })
const json = (description: string, schema: object): object => ({ description, content: { 'application/json': { schema } } })
const sessionId = { name: 'session_id', in: 'path', required: true, schema: { type: 'string', format: 'uuid' } }
const object = (properties: Record<string, object>): object => ({ type: 'object', required: Object.keys(properties), properties })
const text = { type: 'string' }

const schemas = {
  Session: object({ session_id: { type: 'string', format: 'uuid' } }),
  Step: object({
    sandbox_id: { ...text, description: 'Must be the session_id of the URL' },
    type: { enum: ['bash', 'python'] },
    payload: { anyOf: [object({ cmd: text }), object({ code: text })], description: 'cmd for bash, code for python' },
  }),
  StepResult: object({ output: text, error: text, exit_code: { type: 'integer' } }),
  Detail: object({ detail: text }),
  Details: object({
    detail: { type: 'array', items: object({ type: text, loc: { type: 'array', items: {} }, msg: text, input: {} }) },
  }),
}
