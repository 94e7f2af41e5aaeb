import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { API_KEY, ENROLL_TOKEN, type Stack, startStack } from '../support/stack.ts'
import { eventually, filesBelow } from '../support/traces.ts'

let stack: Stack
beforeAll(async () => {
  const logged = ['--log-level', 'trace']
  stack = await startStack({ provider: 'local', agentArgs: logged, brokerArgs: logged })
})
afterAll(() => stack?.[Symbol.asyncDispose]())

/** Any signed token, the keys that the product makes, and those of this test. */
const SECRETS = new RegExp(`eyJ[\\w-]+\\.[\\w-]+\\.[\\w-]+|bx[oa]_[\\w-]{40,}|${API_KEY}|${ENROLL_TOKEN}`, 'g')
const secretsIn = (text: string): string[] => text.match(SECRETS) ?? []

const secretsBelow = async (directory: string): Promise<string[]> => {
  const found = await Promise.all(
    // Sockets and what is gone meanwhile hold nothing.
    (await filesBelow(directory)).map(async (path) =>
      secretsIn(await readFile(join(directory, path), 'latin1').catch(() => '')).map((secret) => `${path}: ${secret}`),
    ),
  )
  return found.flat()
}

test('[4-16, 4-57, 9] a full run with refusals leaves tokens and keys in no log, no file and no sandbox', async () => {
  const broker = brokerApi(stack.brokerUrl)
  const bearer = { authorization: `Bearer ${API_KEY}` }
  const grant = await broker.ensure('secrets')
  expect(secretsIn(grant.token)).toEqual([grant.token])

  const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('secrets')
  await session.files.upload('a', 'b')
  await (await session.exec.start('echo streamed')).exit
  const seen = await session.exec('cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; env; grep -rs . /workspace /tmp')
  expect(seen.stdout).toContain(grant.session_id)
  expect(secretsIn(seen.stdout)).toEqual([])

  const refreshed = await request(`${stack.brokerUrl}/v1/sandbox/sessions/${grant.session_id}/refresh`, { method: 'POST', headers: bearer })
  expect(refreshed.status).toBe(200)
  const elsewhere = await broker.ensure('elsewhere')
  const refused: Grant[] = [
    { ...grant, token: API_KEY },
    { ...grant, token: `${grant.token}x` },
    { ...grant, token: elsewhere.token },
  ]
  for (const one of refused) expect([401, 403]).toContain((await dataplane(one, 'GET', '/execs')).status)
  expect((await request(`${grant.sandbox.http_base_url}/execs?token=${grant.token}`)).status).toBe(401)
  expect((await broker.get(`/v1/sandbox/sessions?cursor=${API_KEY}`)).status).toBe(400)
  const headers = { authorization: `Bearer ${grant.token}x` }
  await once(new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws?token=${grant.token}`, { headers }), 'error')
  // What the agent tells of all this, too: it is in the database that is searched below.
  const audited = () => broker.get('/v1/audit?event=dataplane.refused')
  await eventually('the refusals are audited', async () => (await audited()).text.includes(grant.session_id))
  expect(secretsIn((await broker.get('/v1/audit?limit=1000')).text)).toEqual([])
  for (const { session_id } of [grant, elsewhere]) await broker.release(session_id)

  const logs = stack.broker().stderr() + stack.agent().stderr()
  expect(logs).toContain('broker listens')
  expect(secretsIn(logs)).toEqual([])
  expect(await secretsBelow(stack.brokerDataDir)).toEqual([])
  expect(await secretsBelow(stack.agentDataDir)).toEqual([])
})
