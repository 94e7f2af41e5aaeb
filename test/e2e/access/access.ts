import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** Who loses its access, or its thread, has lost it where the work is done too: at the agent, with tokens that are in date. */
export const accessSuite = (provider: ProviderName): void => {
  describe(`${provider}: access that is lost`, () => {
    let stack: Stack
    beforeAll(async () => {
      stack = await startStack({ provider })
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    const broker = (method: string, path: string, body?: unknown, key = API_KEY) =>
      request(`${stack.brokerUrl}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    const person = async (name: string) => {
      const { key } = (await broker('POST', '/v1/keys', { name, principal: name })).body as { key: string }
      return { key, ...brokerApi(stack.brokerUrl, key) }
    }
    const run = (grant: Grant, command: string) => dataplane(grant, 'POST', '/exec', { command })
    /** An open shell, and the code that it closes with. */
    const openShell = async (grant: Grant) => {
      const socket = new WebSocket(`${grant.sandbox.ws_base_url}/shell/ws`, { headers: { authorization: `Bearer ${grant.token}` } })
      const closed = new Promise<number>((resolve) => socket.on('close', resolve))
      await once(socket, 'open')
      socket.send(JSON.stringify({ type: 'start', rows: 24, cols: 80 }))
      await once(socket, 'message')
      return { socket, closed }
    }

    test('[C-01, C-57] a member that is left out: its token opens nothing, its shell closes 4403; the owner works on', async () => {
      const [alice, bob] = [await person('alice'), await person('bob')]
      const mine = await alice.ensure('shared', { members: ['bob'] })
      const theirs = await bob.ensure('shared')
      expect(theirs.sandbox.id).toBe(mine.sandbox.id)
      expect((await run(mine, 'echo from alice > note')).status).toBe(200)
      expect((await run(theirs, 'cat note')).body).toMatchObject({ stdout: 'from alice\n' })
      const [ours, its] = [await openShell(mine), await openShell(theirs)]

      const members = `/v1/sandbox/sessions/${mine.session_id}/members`
      expect((await broker('PUT', members, { principals: [] }, alice.key)).status).toBe(200)
      await eventually('the token opens nothing', async () => (await run(theirs, 'cat note')).status === 403)
      expect((await run(theirs, 'cat note')).body).toMatchObject({ error: { code: 'CAPABILITY_DENIED' } })
      expect((await dataplane(theirs, 'GET', '/files/download?path=note')).status).toBe(403)
      expect(await its.closed).toBe(4403)

      expect((await run(mine, 'cat note')).body).toMatchObject({ stdout: 'from alice\n' })
      expect(ours.socket.readyState).toBe(WebSocket.OPEN)
      // Let in again, it works with a new token at once.
      await broker('PUT', members, { principals: ['bob'] }, alice.key)
      const again = await bob.ensure('shared')
      expect((await run(again, 'cat note')).body).toMatchObject({ stdout: 'from alice\n' })
      ours.socket.close()
    })

    test('[C-74] a deleted thread: its tokens are refused, and the kept files of its owner are not the next one’s', async () => {
      const [alice, bob] = [await person('alice'), await person('bob')]
      const first = await alice.ensure('passed-on')
      await run(first, 'echo private > note')
      await broker('DELETE', `/v1/sandbox/sessions/${first.session_id}?keep_workspace=true`, undefined, alice.key)
      const second = await alice.ensure('passed-on')
      expect((await run(second, 'cat note')).body).toMatchObject({ stdout: 'private\n' })
      await broker('DELETE', `/v1/sandbox/sessions/${second.session_id}?keep_workspace=true`, undefined, alice.key)
      const third = await alice.ensure('passed-on')

      expect((await broker('DELETE', '/v1/sandbox/threads/passed-on', undefined, alice.key)).status).toBe(204)
      await eventually('its token is refused', async () => (await run(third, 'cat note')).status === 401)
      const next = await bob.ensure('passed-on')
      expect((await run(next, 'ls -A')).body).toMatchObject({ stdout: '', exit_code: 0 })
      expect((await alice.negotiate({ thread_id: 'passed-on', mode: 'ensure' })).status).toBe(403)
    })
  })
}
