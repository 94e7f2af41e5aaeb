import { setTimeout as delay } from 'node:timers/promises'
import { brokerApi, dataplane, type Grant, type Reply } from '../support/api.ts'

/** What a crowd has seen. `wrong`: answers that no client may get. `worst`: the most attempts that one request took. */
export type CrowdReport = {
  requests: number
  retried: number
  worst: number
  refused: number
  wrong: string[]
  /** Request ids of the grants, which the audit log must have. */
  grants: string[]
  /** Sessions that a thread had which nobody released. */
  sessions: Map<string, Set<string>>
  /** Ids of the execs that have ended, by session. */
  execs: Map<string, string[]>
}

export type Crowd = { report: CrowdReport; stop(): Promise<CrowdReport> }

/** Threads that are used by all; those whose names begin otherwise belong to one client, which also releases them. */
export const SHARED = ['shared-0', 'shared-1', 'shared-2', 'shared-3'] as const
/** How long a request is tried: a broker that dies may have been making the sandbox, which another takes over after its timeout. */
const TRIED_MS = 150_000

/**
 * Clients that use each broker in turn, and the next one when one does not answer, or asks to try again (503 with `Retry-After`): shared
 * sessions with commands in them, and own ones that are released.
 */
export const startCrowd = (brokerUrls: readonly string[], clients: number): Crowd => {
  const apis = brokerUrls.map((url) => brokerApi(url))
  const report: CrowdReport = {
    ...{ requests: 0, retried: 0, worst: 0, refused: 0, wrong: [], grants: [] },
    sessions: new Map(),
    execs: new Map(),
  }
  let stopped = false

  const attempt = async (what: string, client: number, send: (api: ReturnType<typeof brokerApi>) => Promise<Reply>): Promise<Reply> => {
    const first = client + report.requests++
    const end = performance.now() + TRIED_MS
    for (let tries = 1; ; tries++) {
      report.worst = Math.max(report.worst, tries)
      if (tries === 2) report.retried++
      const api = apis[(first + tries) % apis.length]
      const reply = api && (await send(api).catch(() => undefined))
      if (reply !== undefined && reply.status !== 503) return reply
      if (reply !== undefined) {
        report.refused++
        const { aliases } = (reply.body as { error?: { aliases?: string[] } } | undefined)?.error ?? {}
        if (!aliases?.includes('BACKEND_UNAVAILABLE') || reply.headers.get('retry-after') === null)
          report.wrong.push(`${what}: 503 ${reply.headers.get('retry-after')} ${reply.text}`)
      }
      if (performance.now() > end) throw new Error(`${what}: no broker answers`)
      await delay(Math.min(50 * tries, 500))
    }
  }

  const ensure = async (thread: string, client: number): Promise<Grant | undefined> => {
    const reply = await attempt(`ensure ${thread}`, client, (api) => api.negotiate({ thread_id: thread, mode: 'ensure' }))
    if (reply.status === 200) {
      report.grants.push(reply.headers.get('x-request-id') ?? '')
      return reply.body as Grant
    }
    report.wrong.push(`ensure ${thread}: ${reply.status} ${reply.text}`)
    return undefined
  }

  const useShared = async (client: number, round: number): Promise<void> => {
    const thread = SHARED[(client + round) % SHARED.length] ?? SHARED[0]
    const grant = await ensure(thread, client)
    if (grant === undefined) return
    report.sessions.set(thread, (report.sessions.get(thread) ?? new Set()).add(grant.session_id))
    const id = `c${client}-${round}`
    const reply = await dataplane(grant, 'POST', '/exec', { command: 'true', exec_id: id })
    if (reply.status !== 200) report.wrong.push(`exec ${id}: ${reply.status} ${reply.text}`)
    else report.execs.set(grant.session_id, [...(report.execs.get(grant.session_id) ?? []), id])
  }

  const useOwn = async (client: number): Promise<void> => {
    const thread = `own-${client}`
    const first = await ensure(thread, client)
    const again = await ensure(thread, client)
    if (first === undefined || again === undefined) return
    if (first.session_id !== again.session_id) report.wrong.push(`${thread}: ${first.session_id}, then ${again.session_id}`)
    const reply = await attempt(`release ${thread}`, client, (api) => api.release(again.session_id))
    // 404: the broker that has released it died before it could say so.
    if (reply.status !== 204 && reply.status !== 404) report.wrong.push(`release ${thread}: ${reply.status} ${reply.text}`)
  }

  const run = async (client: number): Promise<void> => {
    for (let round = 0; !stopped; round++) {
      try {
        await (round % 4 === 3 ? useOwn(client) : useShared(client, round))
      } catch (thrown) {
        report.wrong.push(String(thrown))
      }
      await delay(20)
    }
  }
  const running = Array.from({ length: clients }, (_, client) => run(client))
  return {
    report,
    async stop() {
      stopped = true
      await Promise.all(running)
      return report
    },
  }
}
