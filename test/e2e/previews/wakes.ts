import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi } from '../support/api.ts'
import { API_KEY, MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { getPreview } from './get-preview.ts'

const GUARD_MS = 120_000
const PORT = 8123
const PROFILES = [
  { name: 'freezes', idle_timeout_seconds: 2 },
  { name: 'stops', idle_timeout_seconds: 2, stop_after_seconds: 1 },
  { name: 'sleeps', idle_timeout_seconds: 2, previews_wake: false },
]

/** Who looks at a preview wakes its sandbox, unless the profile says no. */
export const wakesSuite = (provider: ProviderName): void => {
  describe.each(MODES)(`${provider}, %s: a sandbox that nobody uses, and whose port is exposed`, (mode) => {
    let stack: Stack
    let api: ReturnType<typeof brokerApi>
    beforeAll(async () => {
      stack = await startStack({ provider, mode, config: { profiles: PROFILES } })
      api = brokerApi(stack.brokerUrl)
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    const stopped = async (session: Session): Promise<void> => {
      for await (const event of session.events()) if (event.type === 'state' && event.mode === 'stop') return
    }

    // A managed process would keep the sandbox in use.
    const startApp = async (session: Session): Promise<void> => {
      await session.exec(`python3 app.py ${PORT} > /dev/null 2>&1 &`)
      await expect.poll(async () => (await session.ports.list()).map(({ port }) => port)).toContain(PORT)
    }

    /** A session of the profile, suspended, with what a program shows to look at its application. */
    const suspended = async (profile: string, thread: string) => {
      const client = connect(stack.brokerUrl, { apiKey: API_KEY })
      const session = await client.session(thread, { profile, capabilities: ['ports', 'exec', 'fs_write'] })
      await session.files.upload('app.py', await readFile(join(import.meta.dirname, 'app.py')))
      await startApp(session)
      const { token } = await api.ensure(thread, { requested_capabilities: ['ports'] })
      const { host } = new URL((await session.ports.expose(PORT)).url)
      await expect.poll(() => api.stateOf(session.id), { timeout: GUARD_MS }).toBe('suspended')
      return { session, headers: { host, 'x-boxoffice-preview-token': token } }
    }

    test('is frozen; a request wakes it, and the program goes on', async () => {
      const { session, headers } = await suspended('freezes', 'requests')
      expect(await getPreview('/', headers)).toBe(200)
      await expect.poll(() => api.stateOf(session.id), { timeout: GUARD_MS }).toBe('active')
    })

    test('is frozen; a WebSocket wakes it, and keeps it awake', async () => {
      const { session, headers } = await suspended('freezes', 'sockets')
      const socket = new WebSocket(`ws://127.0.0.1:${headers.host.split(':')[1]}/ws`, { headers })
      await once(socket, 'open')
      socket.send('hello')
      expect(String((await once(socket, 'message'))[0])).toBe('hello')
      await expect.poll(() => api.stateOf(session.id), { timeout: GUARD_MS }).toBe('active')
      socket.terminate()
      await expect.poll(() => api.stateOf(session.id), { timeout: GUARD_MS }).toBe('suspended')
    })

    test('is stopped; a request starts it, and says that the program is gone until somebody starts it', async () => {
      const { session, headers } = await suspended('stops', 'stopped')
      await stopped(session)
      expect(await getPreview('/', headers)).toBe(502)
      await expect.poll(() => api.stateOf(session.id), { timeout: GUARD_MS }).toBe('active')
      await startApp(session)
      expect(await getPreview('/', headers)).toBe(200)
    })

    test('is woken by no look where its profile says so, and by a command', async () => {
      const { session, headers } = await suspended('sleeps', 'asleep')
      // The broker says so as it gives the order: a look that is faster than the agent is served, and counts as use.
      await expect.poll(() => getPreview('/', headers), { timeout: GUARD_MS, interval: 4000 }).toBe(409)
      for (let looks = 0; looks < 3; looks++) expect(await getPreview('/', headers)).toBe(409)
      expect(await api.stateOf(session.id)).toBe('suspended')
      await session.exec('true')
      expect(await getPreview('/', headers)).toBe(200)
    })
  })
}
