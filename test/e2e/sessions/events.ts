import { connect, type Session, type SessionEvent } from '@boxoffice/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually, isFrozen, processWith } from '../support/traces.ts'

type Entry = Record<string, unknown> & { data: Record<string, unknown> | null }

/** What those who follow a session learn, and what the audit log has of the dataplane. */
export const eventsSuite = (provider: ProviderName): void => {
  describe(`${provider}: events and audit`, () => {
    let stack: Stack
    let broker: ReturnType<typeof brokerApi>
    const followers: { leave: () => void; over: Promise<void> }[] = []
    beforeAll(async () => {
      const profiles = [
        { name: 'freezes', idle_timeout_seconds: 2 },
        { name: 'small', memory_mb: 64 },
      ]
      stack = await startStack({ provider, config: { profiles } })
      broker = brokerApi(stack.brokerUrl)
    })
    afterEach(async () => {
      for (const { leave } of followers) leave()
      await Promise.all(followers.splice(0).map(({ over }) => over))
    })
    afterAll(async () => stack?.[Symbol.asyncDispose]())

    const open = (thread: string, options: { profile?: string } = {}) =>
      connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread, options)
    /** Follows until the session ends or the returned function is called. */
    const follow = (session: Session, lastEventId?: number) => {
      const events: SessionEvent[] = []
      const aborter = new AbortController()
      const over = (async () => {
        for await (const event of session.events({ lastEventId, signal: aborter.signal })) events.push(event)
      })()
      const follower = {
        events,
        over: over.catch((error: unknown) => {
          if (!aborter.signal.aborted) throw error
        }),
        leave: () => aborter.abort(),
      }
      followers.push(follower)
      return follower
    }
    const exits = (events: readonly SessionEvent[]) => events.filter((event) => event.type === 'exec.exit')
    const types = (events: readonly SessionEvent[]) => events.map((event) => (event.type === 'state' ? `state ${event.state}` : event.type))
    const audit = async (query: string) => ((await broker.get(`/v1/audit?${query}`)).body as { entries: Entry[] }).entries
    const grantOf = (session: Session) => broker.ensure(session.threadId ?? '') as Promise<Grant>

    test('[2.4, C-31] each end of a process is an event, once, as its result says: exit, signal, timeout, no such program', async () => {
      const session = await open('exits', { profile: 'small' })
      const follower = follow(session)
      const results = [
        await session.exec('exit 3', { execId: 'exit' }),
        await session.exec('kill -9 $$', { execId: 'signal' }),
        await session.exec('sleep 60', { execId: 'timeout', timeoutSeconds: 0.2 }),
        await session.exec(['/no/such/program'], { execId: 'nothing' }),
        await session.exec('exit 3', { execId: 'exit' }), // the same end again, not another one
      ]
      // Two readers hear of it.
      const run = await session.exec.start('sleep 0.5; exit 4', { execId: 'read' })
      const other = await session.exec.attach('read', { mode: 'viewer' })
      await other.exit
      results.push({ ...results[0], ...(await run.exit), execId: 'read' } as (typeof results)[number])
      await eventually('all are told', () => exits(follower.events).length >= 5)
      await session.exec('true', { execId: 'last' })
      await eventually('the last is told', () => exits(follower.events).at(-1)?.execId === 'last')
      follower.leave()
      const expected = results
        .filter((_, i) => i !== 4)
        .map(({ execId, exitCode, signal, reason, killCause, oomKilled, durationMs }) => ({
          ...{ type: 'exec.exit', kind: 'exec', id: expect.any(Number), at: expect.any(Date) },
          ...{ execId, exitCode, signal, reason, killCause, oomKilled, durationMs },
        }))
      expect(exits(follower.events).slice(0, -1)).toEqual(expected)
      expect(exits(follower.events).map(({ reason }) => reason)).toEqual([
        'exited',
        'signaled',
        'timed_out',
        'spawn_failed',
        'exited',
        'exited',
      ])
    })

    test('[C-32] out of memory is told as such', async () => {
      const session = await open('hog', { profile: 'small' })
      const follower = follow(session)
      expect(await session.exec(['tail', '/dev/zero'], { execId: 'hog' })).toMatchObject({ exitCode: 137, oomKilled: true })
      await eventually('it is told', () => exits(follower.events).length > 0)
      expect(exits(follower.events)).toMatchObject([{ execId: 'hog', exitCode: 137, oomKilled: true }])
    })

    test('[C-53] a request wakes a frozen sandbox: the follower sees it sleep and wake', async () => {
      const session = await open('wakes', { profile: 'freezes' })
      const seconds = 1_000_000 + Math.floor(Math.random() * 1_000_000)
      await session.exec(`sleep ${seconds} > /dev/null 2>&1 &`)
      const pid = await processWith(`sleep ${seconds}`)
      const follower = follow(session)
      await eventually('it is suspended', () => types(follower.events).includes('state suspended'))
      // The session is suspended before its agent has been asked to freeze: a request in between has nothing to wake.
      await eventually('it is frozen', () => isFrozen(pid))
      const { length } = follower.events
      await session.files.upload('x', 'y')
      await eventually('it is active', () => types(follower.events).slice(length).includes('state active'))
      follower.leave()
      expect(types(follower.events).slice(length, length + 2)).toEqual(['wake', 'state active'])
      expect(follower.events[length]).toMatchObject({ from: 'freeze' })
    })

    test('[2.4, C-28] a release ends the stream; what it killed is in the audit log', async () => {
      const session = await open('released')
      const follower = follow(session)
      const run = await session.exec.start('sleep 600', { execId: 'killed' })
      const exit = run.exit.catch(() => undefined)
      await session.release()
      await follower.over
      await exit
      expect(types(follower.events).slice(-2)).toEqual(['state terminated', 'released'])
      const killed = () => audit(`event=exec.exit&session_id=${session.id}`)
      await eventually('the end of the process is audited', async () => (await killed()).length > 0)
      expect(await killed()).toMatchObject([{ code: 'released', data: { exec_id: 'killed', reason: 'killed', kill_cause: 'released' } }])
      // Who had all but the end, and comes back after it.
      const late = follow(session, follower.events.at(-2)?.id ?? 0)
      await late.over
      expect(types(late.events)).toEqual(['released'])
    })

    test('[2.4] a session that is released right after its commands: none of their ends is missing', async () => {
      const ids = [1, 2, 3, 4, 5]
      const release = async (n: number): Promise<readonly SessionEvent[]> => {
        const session = await open(`at once ${n}`)
        const follower = follow(session)
        for (const id of ids) await session.exec(`exit ${id}`, { execId: `e${id}` })
        await session.release()
        await follower.over
        return follower.events
      }
      for (const events of await Promise.all(ids.map(release))) {
        expect(exits(events).map(({ execId, exitCode }) => `${execId} ${exitCode}`)).toEqual(ids.map((id) => `e${id} ${id}`))
        const told = types(events).filter((type) => type !== 'lease')
        expect(told.slice(-7)).toEqual([...ids.map(() => 'exec.exit'), 'state terminated', 'released'])
        expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => i + 1))
      }
    })

    test('[2.4, 2-28] an agent that is killed between an end and its report: what the supervisor knows is told, once', async () => {
      const session = await open('agent killed')
      const follower = follow(session)
      await session.exec('exit 1', { execId: 'told' })
      await eventually('it is told', () => exits(follower.events).length === 1)
      const grant = await grantOf(session)
      await dataplane(grant, 'POST', '/exec', { command: 'sleep 1; exit 5', exec_id: 'while-away', detach: true })
      await dataplane(grant, 'POST', '/exec', { command: 'exit 6', exec_id: 'untold' })
      await stack.agent().kill('SIGKILL')
      await new Promise((resolve) => setTimeout(resolve, 1500))
      await stack.startAgent()
      await eventually('both are told', () => exits(follower.events).length >= 3)
      await session.exec('true', { execId: 'last' })
      await eventually('the last is told', () => exits(follower.events).at(-1)?.execId === 'last')
      follower.leave()
      const found = exits(follower.events).map(({ execId, exitCode }) => `${execId} ${exitCode}`)
      expect(found.toSorted()).toEqual(['last 0', 'told 1', 'untold 6', 'while-away 5'])
    })

    test('[2.4] a broker that is killed and comes back: the follower loses nothing', async () => {
      const session = await open('broker killed')
      const follower = follow(session)
      await session.exec('exit 1', { execId: 'before' })
      await eventually('it is told', () => exits(follower.events).length === 1)
      const grant = await grantOf(session)
      await stack.broker().kill('SIGKILL')
      await dataplane(grant, 'POST', '/exec', { command: 'exit 2', exec_id: 'while-away' })
      await stack.startBroker()
      await eventually('it is told', () => exits(follower.events).length === 2)
      follower.leave()
      expect(exits(follower.events).map(({ execId }) => execId)).toEqual(['before', 'while-away'])
      const ids = follower.events.map(({ id }) => id)
      expect(ids).toEqual(ids.map((_, i) => i + 1))
    })

    test('[C-72] who came to the dataplane and who was refused, with the token by its hash', async () => {
      const grant = await broker.ensure('audited')
      const other = await broker.ensure('audited elsewhere')
      for (let i = 0; i < 5; i++) await dataplane(grant, 'POST', '/exec', { command: 'true' })
      await dataplane(grant, 'GET', '/files')
      await dataplane({ ...grant, token: other.token }, 'GET', '/execs')
      await dataplane({ ...grant, token: 'no-token' }, 'GET', '/execs')
      await dataplane(grant, 'GET', '/files/download?path=../../etc/passwd')
      const { session_id: id } = grant
      await eventually('it is in the log', async () => (await audit(`event=dataplane.refused&session_id=${id}`)).length >= 3)
      const opened = (await audit(`event=dataplane.open&session_id=${id}`)).toReversed()
      const [acquired] = await audit(`event=sandbox.session.acquire&session_id=${id}`)
      const common = {
        session_id: id,
        sandbox_id: grant.sandbox.id,
        thread_id: 'audited',
        tenant: 'default',
        caller: 'operator',
        ip: '127.0.0.1',
      }
      expect(opened.map(({ data }) => data?.route)).toEqual(['exec', 'files'])
      for (const entry of opened)
        expect(entry).toMatchObject({ ...common, outcome: 'ok', actor: 'operator', token_hash: acquired?.token_hash, code: null })
      expect(opened[0]?.data).toEqual({
        ...{ route: 'exec', transport: 'http', jti: expect.any(String), agent_id: expect.stringMatching(/^agt_/) },
      })
      const refused = (await audit(`event=dataplane.refused&session_id=${id}`)).toReversed()
      expect(refused.map(({ code, caller, outcome }) => [code, caller, outcome])).toEqual([
        ['FORBIDDEN', null, 'refused'],
        ['UNAUTHENTICATED', null, 'refused'],
        ['INVALID_PATH', 'operator', 'refused'],
      ])
      for (const entry of refused) {
        expect(entry).toMatchObject({ session_id: id, ip: '127.0.0.1', request_id: expect.stringMatching(/^req_/) })
        expect(entry.data?.reason).toEqual(expect.any(String))
      }
      const page = await request(`${stack.brokerUrl}/v1/audit?limit=1000`, { headers: { authorization: `Bearer ${API_KEY}` } })
      expect(page.text).not.toContain(grant.token)
      expect(page.text).not.toMatch(/eyJ[\w-]+\./)
    })
  })
}
