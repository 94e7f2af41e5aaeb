import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Store } from '../store/store.ts'

/** What `/metrics` shows; a registry of its own, so that two brokers in one process do not share numbers. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #requests = new Histogram({
    name: 'boxoffice_broker_request_seconds',
    help: 'Time to answer a request',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60],
    registers: [this.#registry],
  })
  readonly #errors = new Counter({
    name: 'boxoffice_broker_errors_total',
    help: 'Refusals by code',
    labelNames: ['code'],
    registers: [this.#registry],
  })

  constructor(store: Store) {
    const registers = [this.#registry]
    /** What each broker would say of the whole database is said by the leader alone, so that a sum over brokers is right. */
    const ofAll = (collect: () => Promise<void>) =>
      async function collectByLeader(this: Gauge<string>): Promise<void> {
        this.reset()
        // While the database is away the rest is told.
        if (await store.brokers.leads().catch(() => false)) await collect().catch(() => this.reset())
      }
    const sessions = new Gauge({
      name: 'boxoffice_sessions',
      help: 'Live sessions by state; of several brokers the leader has them',
      labelNames: ['state'],
      registers,
      collect: ofAll(async () => {
        const states = await store.counts.liveByState()
        for (const state of ['provisioning', 'active', 'idle', 'suspended']) sessions.set({ state }, states[state] ?? 0)
      }),
    })
    const agents = new Gauge({
      name: 'boxoffice_agents',
      help: 'Agents by whether their provider is available; of several brokers the leader has them',
      labelNames: ['available'],
      registers,
      collect: ofAll(async () => {
        const all = (await store.agents.list()).filter(({ provider }) => provider.reserved === undefined)
        for (const available of [true, false])
          agents.set({ available: String(available) }, all.filter((agent) => agent.provider.available === available).length)
      }),
    })
  }

  observe(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status }, seconds)
  }

  refused(code: string): void {
    this.#errors.inc({ code })
  }

  /** Prometheus text. */
  text(): Promise<string> {
    return this.#registry.metrics()
  }

  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE
}
