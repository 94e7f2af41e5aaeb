import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Journal } from '../broker-link/journal.ts'
import type { EgressDecision } from '../egress/egress-types.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'

/** Sandboxes, the pool and what runs, as they are when somebody asks. */
export const countSandboxes = (metrics: Registry, manager: SandboxManager): void => {
  new Gauge({
    name: 'boxoffice_agent_sandboxes',
    help: 'Sandboxes on this agent by state',
    labelNames: ['state'],
    registers: [metrics],
    collect() {
      this.reset()
      for (const { state } of manager.inventory.reports()) this.labels(state).inc()
    },
  })
  new Gauge({
    name: 'boxoffice_agent_processes_running',
    help: 'Execs and shells that run',
    registers: [metrics],
    collect() {
      this.set(manager.inventory.reports().reduce((sum, { activity }) => sum + activity.running, 0))
    },
  })
  new Gauge({
    name: 'boxoffice_agent_pool_ready',
    help: 'Sandboxes that wait in the pool, by profile',
    labelNames: ['profile'],
    registers: [metrics],
    collect() {
      this.reset()
      for (const { profile, ready } of manager.pool.sizes()) this.labels(profile).set(ready)
    },
  })
}

/** The journal, with each end of a process counted that it is told of. */
export const countEnds = (metrics: Registry, journal: Pick<Journal, 'write'>): Pick<Journal, 'write'> => {
  const execs = new Counter({
    name: 'boxoffice_agent_execs_total',
    help: 'Execs and shells that have ended, by how',
    labelNames: ['kind', 'reason'],
    registers: [metrics],
  })
  const seconds = new Histogram({
    name: 'boxoffice_agent_exec_seconds',
    help: 'From the start of an exec or a shell to its end',
    labelNames: ['kind'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5, 30, 300, 3600],
    registers: [metrics],
  })
  return {
    write(subject, fact, ageMs = 0) {
      // What is only found in a record may have been counted by an earlier run of the agent.
      if (fact.type === 'exec.exit' && !(fact.recovered && ageMs > 0)) {
        const { kind, reason, duration_ms: ms } = fact.data
        execs.labels(kind, reason).inc()
        if (ms !== null) seconds.labels(kind).observe(ms / 1000)
      }
      journal.write(subject, fact, ageMs)
    },
  }
}

/** What hears of each decision about a connection or request that leaves a sandbox. */
export const countEgress = (metrics: Registry): ((decision: Pick<EgressDecision, 'allowed' | 'protocol' | 'code'>) => void) => {
  const decisions = new Counter({
    name: 'boxoffice_agent_egress_decisions_total',
    help: 'Connections and requests that left sandboxes or were refused, by protocol and code; allowed ones have the code ok',
    labelNames: ['protocol', 'code'],
    registers: [metrics],
  })
  return ({ allowed, protocol, code }) => decisions.labels(protocol, allowed ? 'ok' : (code ?? 'not_allowed')).inc()
}

/** Bytes of the dataplane's connections. They count themselves: nothing is done for a chunk. */
export const countTraffic = (metrics: Registry, server: Server): void => {
  const open = new Set<Socket>()
  const closed = { in: 0, out: 0 }
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      closed.in += socket.bytesRead
      closed.out += socket.bytesWritten
    })
  })
  new Counter({
    name: 'boxoffice_agent_bytes_total',
    help: 'Bytes that came in and went out on the dataplane, as the network has them',
    labelNames: ['direction'],
    registers: [metrics],
    collect() {
      let [received, sent] = [closed.in, closed.out]
      for (const socket of open) {
        received += socket.bytesRead
        sent += socket.bytesWritten
      }
      this.reset()
      this.labels('in').inc(received)
      this.labels('out').inc(sent)
    },
  })
}
