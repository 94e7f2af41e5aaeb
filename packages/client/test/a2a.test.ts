import { Task, TaskState } from '@a2a-js/sdk'
import { expect, expectTypeOf } from 'vitest'
import { A2A_SESSION, type A2ATaskFields, toA2A } from '../src/index.ts'
import { SESSION_ID } from './fixture/fake-server.ts'
import { test } from './fixture/server-test.ts'

test('[4-174] a session becomes metadata, context and artifact of an A2A task', async ({ server, session }) => {
  const { host } = new URL(server.url)
  expect(A2A_SESSION).toBe('urn:boxoffice:a2a:sandbox-session:v1')
  expect(toA2A(session)).toEqual({
    contextId: 'sb_1',
    metadata: {
      'urn:boxoffice:a2a:sandbox-session:v1': {
        session_id: SESSION_ID,
        sandbox_id: 'sb_1',
        broker_url: server.url,
        expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        mode: null,
      },
    },
    artifacts: [
      {
        artifactId: SESSION_ID,
        name: 'sandbox',
        description: 'The dataplane of a sandbox: negotiate with the broker of the metadata for a token of your own',
        parts: [
          {
            content: { $case: 'url', value: `http://${host}/sandboxes/sb_1/v1` },
            filename: '',
            mediaType: '',
            metadata: { 'urn:boxoffice:a2a:sandbox-session:v1': { base_url: 'http' } },
          },
          {
            content: { $case: 'url', value: `ws://${host}/sandboxes/sb_1/v1` },
            filename: '',
            mediaType: '',
            metadata: { 'urn:boxoffice:a2a:sandbox-session:v1': { base_url: 'websocket' } },
          },
        ],
        metadata: undefined,
        extensions: ['urn:boxoffice:a2a:sandbox-session:v1'],
      },
    ],
  })
})

test('[4-174] no token is in it, also after a renewal', async ({ server, session }) => {
  await session.refresh()
  const text = JSON.stringify(toA2A(session))
  const issued = server.issueToken().token
  // All tokens of this server have the same first and last part.
  expect(issued.split('.')).toMatchObject({ 0: 'e30', 2: 'c2ln' })
  expect(text).not.toMatch(/e30\.|c2ln/)
})

test('[4-174] says whether the dataplane is direct or relayed, where the broker tells', ({ session }) => {
  const relayed = toA2A({ ...fieldsOf(session), details: { ...session.details, mode: 'relay' } })
  expect(relayed.metadata[A2A_SESSION].mode).toBe('relay')
})

test('[4-174] the official SDK takes it as it is, and writes it to the wire', ({ server, session }) => {
  expectTypeOf<A2ATaskFields>().toExtend<Pick<Task, 'contextId' | 'metadata' | 'artifacts'>>()
  const task: Task = {
    id: 'task-1',
    status: { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined },
    history: [],
    ...toA2A(session),
  }
  const wire = JSON.parse(JSON.stringify(Task.toJSON(task)))
  const { host } = new URL(server.url)
  expect(wire).toMatchObject({
    contextId: 'sb_1',
    metadata: { [A2A_SESSION]: { session_id: SESSION_ID, broker_url: server.url } },
    artifacts: [
      { parts: [{ url: `http://${host}/sandboxes/sb_1/v1` }, { url: `ws://${host}/sandboxes/sb_1/v1` }], extensions: [A2A_SESSION] },
    ],
  })
  expect(Task.fromJSON(wire)).toMatchObject({ contextId: 'sb_1', metadata: task.metadata })
})

/** Getters of a class do not come along with a spread. */
const fieldsOf = ({ id, sandboxId, brokerUrl, httpBaseUrl, wsBaseUrl, expiresAt }: Parameters<typeof toA2A>[0]) => ({
  id,
  sandboxId,
  brokerUrl,
  httpBaseUrl,
  wsBaseUrl,
  expiresAt,
})
