import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connect, type SessionEvent } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane } from '../support/api.ts'
import { API_KEY, type DatabaseName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'
import { type CrowdReport, SHARED, startCrowd } from './broker-crowd.ts'

/** The long run is `BOXOFFICE_CHAOS_SECONDS=120 BOXOFFICE_CHAOS_CLIENTS=200`. */
const SECONDS = Number(process.env.BOXOFFICE_CHAOS_SECONDS ?? 10)
const CLIENTS = Number(process.env.BOXOFFICE_CHAOS_CLIENTS ?? 20)
/** From the start of one broker to the kill of the next. */
const LIVES_MS = 2000

/** Two brokers on one database, and what may end under clients that use both. */
export const brokersSuite = (database: DatabaseName): void => {
  describe(`${database}: two brokers`, () => {
    let stack: Stack
    let broker: ReturnType<typeof brokerApi>
    beforeAll(async () => {
      const config = { agent_timeout: 60, agent_lost_after: 600 }
      stack = await startStack({ provider: 'local', database, brokers: 2, config })
      broker = brokerApi(stack.brokerUrl)
    })
    afterAll(async () => stack?.[Symbol.asyncDispose]())

    /** What a broker answers, as soon as one does. */
    const read = async <T>(path: string): Promise<T> => {
      let body: unknown
      await eventually(`${path} is answered`, async () => {
        const reply = await broker.get(path).catch(() => undefined)
        body = reply?.body
        return reply?.status === 200
      })
      return body as T
    }
    const live = async () =>
      (await read<{ sessions: { scope: { id: string }; sandbox_id: string | null }[] }>('/v1/sandbox/sessions?limit=200')).sessions

    /** Follows a session's events over whatever broker lives; its numbers have no hole, and none comes twice. */
    const follow = (thread: string, signal: AbortSignal) => {
      const events: SessionEvent[] = []
      const over = (async () => {
        const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread)
        for await (const event of session.events({ signal })) events.push(event)
      })().catch((thrown: unknown) => {
        if (!signal.aborted) throw thrown
      })
      return { events, over }
    }

    const requireWhole = async (report: CrowdReport): Promise<void> => {
      expect(report.wrong.slice(0, 10)).toEqual([])
      // One session for each shared thread, all the time.
      expect([...report.sessions].map(([thread, ids]) => [thread, ids.size])).toEqual(
        [...report.sessions.keys()].map((thread) => [thread, 1]),
      )
      const audited = new Set<string | null>()
      for (let cursor = ''; ; ) {
        const page = await read<{ entries: { request_id: string | null }[]; next_cursor: string | null }>(`/v1/audit?limit=1000${cursor}`)
        const { entries, next_cursor: next } = page
        for (const { request_id: id } of entries) audited.add(id)
        if (next === null) break
        cursor = `&cursor=${encodeURIComponent(next)}`
      }
      expect(report.grants.filter((id) => !audited.has(id))).toEqual([])
      // Each sandbox at the agent has its session, and each session its sandbox.
      const compared = async () => {
        const sessions = await live()
        expect(new Set(sessions.map(({ scope }) => scope.id)).size).toBe(sessions.length)
        const sandboxes = await readdir(join(stack.agentDataDir, 'sandboxes'))
        const known = new Set(sessions.map(({ sandbox_id: id }) => id))
        return { left: sandboxes.filter((id) => !known.delete(id)), missing: [...known] }
      }
      await expect.poll(compared).toEqual({ left: [], missing: [] })
    }

    test(`[C-24, C-72] one is killed every ${LIVES_MS / 1000} s under ${CLIENTS} clients: nothing is doubled, left over or lost`, {
      timeout: 300_000 + SECONDS * 10_000,
    }, async () => {
      const leaving = new AbortController()
      const followers = SHARED.map((thread) => follow(thread, leaving.signal))
      const crowd = startCrowd(stack.brokerUrls, CLIENTS)
      const end = performance.now() + SECONDS * 1000
      let kills = 0
      while (performance.now() < end) {
        await delay(LIVES_MS)
        const index = kills++ % 2
        await stack.broker(index).kill('SIGKILL')
        await stack.startBroker(index)
      }
      const report = await crowd.stop()
      await requireWhole(report)
      for (const [i, thread] of SHARED.entries()) {
        const [id = ''] = report.sessions.get(thread) ?? []
        const { events } = followers[i] ?? { events: [] }
        const exits = () => events.flatMap((event) => (event.type === 'exec.exit' ? (event.execId ?? []) : []))
        await eventually(`the events of ${thread}`, () => exits().length >= (report.execs.get(id)?.length ?? 0))
        expect(exits().toSorted()).toEqual(report.execs.get(id)?.toSorted() ?? [])
        const numbers = events.map((event) => event.id ?? Number.NaN)
        expect(numbers).toEqual(numbers.map((_, n) => (numbers[0] ?? 0) + n))
      }
      leaving.abort()
      await Promise.all(followers.map(({ over }) => over))
      console.info({ database, kills, requests: report.requests, retried: report.retried, worst: report.worst, refused: report.refused })
    })

    if (database === 'postgres')
      test('PostgreSQL is restarted and its connections are cut under load: 503 meanwhile, and the dataplane goes on', {
        timeout: 400_000,
      }, async () => {
        const { postgres } = stack
        if (postgres === undefined) throw new Error('no PostgreSQL')
        const grant = await broker.ensure('through')
        const crowd = startCrowd(stack.brokerUrls, 10)
        const commands = { sent: 0, failed: [] as string[] }
        const through = new AbortController()
        const running = (async () => {
          while (!through.signal.aborted) {
            commands.sent++
            const { status, text } = await dataplane(grant, 'POST', '/exec', { command: 'true' })
            if (status !== 200) commands.failed.push(`${status} ${text}`)
            await delay(20)
          }
        })()
        const served = async () => {
          const { requests } = crowd.report
          await eventually('clients are served', () => crowd.report.requests > requests + 30)
        }
        await served()
        await postgres.cut()
        await served()
        await postgres.stop()
        const { sent } = commands
        await eventually('clients are refused', () => crowd.report.refused > 10)
        await eventually('commands run without the database', () => commands.sent > sent + 10)
        await postgres.start()
        await served()
        through.abort()
        await running
        expect(commands.failed).toEqual([])
        const report = await crowd.stop()
        await requireWhole(report)
        console.info({ requests: report.requests, retried: report.retried, worst: report.worst, refused: report.refused })
      })
  })
}
