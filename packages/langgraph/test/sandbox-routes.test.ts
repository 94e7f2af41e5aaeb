import { HTTPException } from 'hono/http-exception'
import { expect, test } from 'vitest'
import { type AuthorizeThread, sandboxRoutes } from '../src/index.ts'

/** No request of these tests gets as far as the broker. */
const negotiate = async (authorize: AuthorizeThread, body = '{"thread_id":"t"}') => {
  const app = sandboxRoutes({ url: 'http://127.0.0.1:1', auth: { apiKey: 'secret-of-the-server' }, authorize })
  const response = await app.request('/v1/sandbox/sessions', { method: 'POST', body })
  return { status: response.status, text: await response.text() }
}

test('an authorize that throws an HTTPException has its answer given', async () => {
  const authorize = () => {
    throw new HTTPException(401, { message: 'log in first' })
  }
  expect(await negotiate(authorize)).toEqual({ status: 401, text: 'log in first' })
})

test('of an error of authorize nothing is told', async () => {
  const { status, text } = await negotiate(() => Promise.reject(new Error('password of the database: x')))
  expect([status, text.includes('database'), text.includes('INTERNAL')]).toEqual([500, false, true])
})

test('an authorize that gives nobody is 403, and is asked only of threads', async () => {
  const asked: string[] = []
  const authorize: AuthorizeThread = (_, { threadId }) => {
    asked.push(threadId)
    return undefined
  }
  expect((await negotiate(authorize)).status).toBe(403)
  for (const body of ['[]', '{"thread_id":7}', '{"thread_id":""}', '\u0000']) expect((await negotiate(authorize, body)).status).toBe(400)
  expect(asked).toEqual(['t'])
})
