import { Counter, Histogram, type Registry } from 'prom-client'

/** What the dataplane counts; created once on the registry of the process. */
export type DataplaneMetrics = {
  /** Answers and closes with an error, by code. */
  errors: Counter<'code'>
  /** HTTP requests by route, from the first byte to the end of the response. */
  latency: Histogram<'route'>
  sockets: Counter<'kind'>
}

export const createDataplaneMetrics = (registry: Registry): DataplaneMetrics => ({
  errors: new Counter({
    name: 'boxoffice_agent_errors_total',
    help: 'Dataplane errors by code',
    labelNames: ['code'],
    registers: [registry],
  }),
  latency: new Histogram({
    name: 'boxoffice_agent_request_seconds',
    help: 'Dataplane HTTP requests by route',
    labelNames: ['route'],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    registers: [registry],
  }),
  sockets: new Counter({
    name: 'boxoffice_agent_sockets_total',
    help: 'Dataplane WebSockets opened, by kind',
    labelNames: ['kind'],
    registers: [registry],
  }),
})
