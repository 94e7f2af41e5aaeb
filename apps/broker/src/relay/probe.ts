import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { sandboxPath } from '../agents/endpoint.ts'
import type { Placement } from '../agents/placement.ts'
import type { Log } from '../host/log.ts'
import type { AgentRecord } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import type { AgentTls } from './http1/agent-tls.ts'
import { createUpstream, type Upstream } from './http1/upstream.ts'

export type RelayProbeOptions = {
  placement: Pick<Placement, 'available'>
  issuer: Pick<TokenIssuer, 'probe'>
  log: Log
  monotonic: () => number
  agentTls?: AgentTls
}

/** What the relay can reach; both empty when there is nothing to say. */
export type RelayHealth = { reasons: string[]; warnings: string[] }

const ANSWER_WITHIN_MS = 5000
/** Of an agent of before the route: its own refusal shows as well that it is reached. */
const REACHED = [204, 404]
/** So that whoever asks often asks no agent often, and learns soon of one that is back. */
const KEPT_MS = { reached: 10_000, missed: 2000 }

/** Whether agents answer where the relay dials them: `GET D/ping` at their dataplane URL, asked when somebody asks, and kept for a moment. */
export class RelayProbe {
  readonly #options: RelayProbeOptions
  readonly #upstream: Upstream
  readonly #known = new BoundedCache<string, { until: number; reached: Promise<boolean>; missed: boolean }>(1000)

  constructor(options: RelayProbeOptions) {
    this.#options = options
    this.#upstream = createUpstream(options.agentTls)
  }

  /** Not ready when no agent that may be relayed to answers; a warning when only some do. */
  async health(): Promise<RelayHealth> {
    const agents = (await this.#options.placement.available()).filter(({ relay }) => relay !== 'never')
    const reached = await Promise.all(agents.map((agent) => this.#reaches(agent)))
    const missed = agents.filter((_, i) => !reached[i]).map(({ id }) => `relay: agent ${id} does not answer at its dataplane URL`)
    return missed.length > 0 && missed.length === agents.length ? { reasons: missed, warnings: [] } : { reasons: [], warnings: missed }
  }

  close(): void {
    this.#upstream.close()
  }

  #reaches(agent: AgentRecord): Promise<boolean> {
    const { monotonic, log } = this.#options
    const key = `${agent.id} ${agent.instanceId} ${agent.dataplaneUrl}`
    const known = this.#known.get(key)
    if (known !== undefined && known.until > monotonic()) return known.reached
    const missed = known?.missed ?? false
    const pinged = this.#ping(agent).then(
      () => true,
      (err: unknown) => {
        // Once, as it is asked again and again.
        if (!missed) log.warn({ agent_id: agent.id, dataplane_url: agent.dataplaneUrl, err }, 'the relay does not reach an agent')
        return false
      },
    )
    // One that was missed may take all of its time again, so nobody waits for it.
    const entry = { until: Number.POSITIVE_INFINITY, reached: missed ? Promise.resolve(false) : pinged, missed }
    this.#known.set(key, entry)
    void pinged.then((reached) => {
      entry.until = monotonic() + (reached ? KEPT_MS.reached : KEPT_MS.missed)
      entry.reached = pinged
      entry.missed = !reached
    })
    return entry.reached
  }

  async #ping(agent: AgentRecord): Promise<void> {
    const { token, sandboxId } = this.#options.issuer.probe(agent.publicKey)
    const request = this.#upstream.request(agent, {
      ...{ method: 'GET', path: sandboxPath(sandboxId, 'ping', ''), headers: { authorization: `Bearer ${token}` } },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    })
    await new Promise<void>((resolve, reject) => {
      request.on('response', (response) => {
        response.resume()
        if (REACHED.includes(response.statusCode ?? 0)) resolve()
        else reject(new Error(`status ${response.statusCode}`))
      })
      request.on('error', reject).end()
    })
  }
}
