import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { brokerApi, dataplane, type Grant } from '../../e2e/support/api.ts'
import { type AttemptsReport, attempt } from './attempts.ts'
import type { Kills } from './disturbances.ts'

export type CrowdReport = AttemptsReport & {
  /** SHA-256 of each token that a client got, base64url, as the audit log has them. */
  tokens: string[]
  /** Sessions that a thread had which nobody released. */
  shared: Map<string, Set<string>>
  execs: number
}

export type Crowd = { report: CrowdReport; stop(): Promise<CrowdReport> }

/** So many clients use one thread together; one of so many has a thread of its own as well, which it releases. */
const AT_ONE_THREAD = 10
const OWN_EVERY = 10
/** A command of every so many rounds: processes cost more than tokens. */
const EXEC_EVERY = 5
const PAUSE_MS = 200

export type CrowdOptions = {
  /** Of a load balancer. */
  url: string
  clients: number
  /** Keeps their threads apart from those of another crowd. */
  prefix: string
  kills: Readonly<Kills>
}

/** Clients that ensure, use and release sessions through a load balancer, until they are stopped. */
export const startCrowd = ({ url, clients, prefix, kills }: CrowdOptions): Crowd => {
  const api = brokerApi(url)
  const report: CrowdReport = {
    ...{ repetitions: [], causes: new Map(), wrong: [], tooOften: [], tokens: [], shared: new Map(), execs: 0 },
  }
  const told = { report, kills }
  let isStopped = false

  const ensure = async (thread: string): Promise<Grant | undefined> => {
    const reply = await attempt(`ensure ${thread}`, told, () => api.negotiate({ thread_id: thread, mode: 'ensure' }))
    if (reply.status !== 200) {
      report.wrong.push(`ensure ${thread}: ${reply.status} ${reply.text.slice(0, 300)}`)
      return undefined
    }
    const grant = reply.body as Grant
    report.tokens.push(createHash('sha256').update(grant.token).digest('base64url'))
    return grant
  }

  const exec = async (grant: Grant): Promise<void> => {
    report.execs++
    const reply = await dataplane(grant, 'POST', '/exec', { command: 'true' })
    if (reply.status !== 200) report.wrong.push(`exec in ${grant.session_id}: ${reply.status} ${reply.text.slice(0, 300)}`)
  }

  const useShared = async (client: number, round: number): Promise<void> => {
    const thread = `${prefix}-shared-${Math.floor(client / AT_ONE_THREAD)}`
    const grant = await ensure(thread)
    if (grant === undefined) return
    report.shared.set(thread, (report.shared.get(thread) ?? new Set()).add(grant.session_id))
    if (round % EXEC_EVERY === 0) await exec(grant)
  }

  const useOwn = async (client: number): Promise<void> => {
    const thread = `${prefix}-own-${client}`
    const first = await ensure(thread)
    if (first === undefined) return
    await exec(first)
    const again = await ensure(thread)
    if (again !== undefined && again.session_id !== first.session_id)
      report.wrong.push(`${thread}: the session ${first.session_id} became ${again.session_id}`)
    const released = await attempt(`release ${thread}`, told, () => api.release(first.session_id))
    // 404 after a repetition: the broker that released it died before it could say so.
    const isReleased = released.status === 204 || (released.status === 404 && released.repeated > 0)
    if (!isReleased) report.wrong.push(`release ${thread}: ${released.status} ${released.text.slice(0, 300)}`)
  }

  const run = async (client: number): Promise<void> => {
    await delay(Math.random() * PAUSE_MS)
    for (let round = 0; !isStopped; round++) {
      try {
        await (client % OWN_EVERY === 0 && round % 4 === 3 ? useOwn(client) : useShared(client, round))
      } catch (thrown) {
        report.wrong.push((thrown as Error).message)
      }
      await delay(PAUSE_MS * (0.5 + Math.random()))
    }
  }
  const running = Array.from({ length: clients }, (_, client) => run(client))
  return {
    report,
    async stop() {
      isStopped = true
      await Promise.all(running)
      return report
    },
  }
}
