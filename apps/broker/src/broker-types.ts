import type { AgentClient } from './agents/agent-client.ts'
import type { Log } from './host/log.ts'
import type { RpcResponse } from './surfaces/box/rpc.ts'
import type { StepsListener } from './surfaces/sbs/listener.ts'

/** Of event streams, in ms: a comment this often; a reader that takes nothing is dropped after; other brokers' writes are looked for (default: the store's). */
export type EventTimes = { pingMs: number; stallMs: number; pollMs?: number }

/** What tests put in the place of the real thing. */
export type BrokerOverrides = {
  now?: () => number
  /** Milliseconds that never jump; ages and caches go by them. */
  monotonic?: () => number
  client?: AgentClient
  log?: Log
  stepsLog?: Log
  eventTimes?: Partial<EventTimes>
  /** The agent of `boxoffice up` is in this process, and shows the same certificate. */
  besideAgent?: boolean
}

export type StartOptions = {
  /** When the agent that this program starts beside the broker works, or is known not to: MCP servers wait for it. */
  agentStarted?: Promise<void>
}

/**
 * `localUrl` is where it listens, whatever its public URL is. `enrollToken` is what agents register with: the configured one, or
 * the one of the data directory.
 */
export type StartedBroker = {
  url: string
  localUrl: string
  port: number
  enrollToken: string
  apiKeyCreated?: string
  /** Of the Box surface's own listeners. */
  boxPort?: number
  boxRpcPort?: number
}

export interface Broker {
  /** Opens the data directory, listens, starts the reaper. Throws `StartError` with what to do; nothing is left open then. */
  start(options?: StartOptions): Promise<StartedBroker>
  /** Stops taking work, gives requests in flight 10 s, closes everything. Sandboxes stay. */
  close(): Promise<void>
  /** One round of the reaper, now. */
  reap(): Promise<void>
  /** Resolves when no call to an agent is in flight for sessions that are being made or have changed. */
  settled(): Promise<void>
  /** The surface of seed 003 on a listener of its own, for everybody who reaches it. Its end ends its sessions. */
  serveSteps(options: { host: string; port: number }): Promise<StepsListener>
  /** Adds the next signing key [C-49]; `immediately`, for one that has leaked, withdraws the present ones. */
  rotateKeys(immediately?: boolean): Promise<void>
  /** Answers one RPC message of the Box surface for the program that started this one [2-45]. */
  boxRpc(message: string): Promise<RpcResponse>
}
