import {
  type AgentHeartbeatRequest,
  type AgentInstructions,
  BoxofficeError,
  type RegisterAgentRequest,
  type RegisterAgentResponse,
} from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { BrokerClient } from './broker-client.ts'
import { register } from './register.ts'

export type UplinkOptions = {
  broker: BrokerClient
  inventory: () => RegisterAgentRequest
  heartbeat: (partial: boolean) => AgentHeartbeatRequest
  /** Called before `onInstructions`, with what a registration says beyond them. */
  onRegistered: (registered: RegisterAgentResponse) => Promise<void>
  onInstructions: (instructions: AgentInstructions) => Promise<void>
  /** The broker does not take this agent, as its first answer after `start` had resolved; the uplink has ended. */
  onRefused: (error: Error) => void
  log: Logger
}

/** Keeps the broker informed: registers, then reports at the pace it asks for, and at once when a sandbox is lost. */
export interface Uplink {
  readonly agentId: string | undefined
  /** Resolves after the first try to register; rejects only if the broker does not take this agent. */
  start(): Promise<void>
  /** Reports what has changed without waiting for the next turn. */
  reportNow(): void
  close(): Promise<void>
}

export const createUplink = ({ broker, inventory, heartbeat, onRegistered, onInstructions, onRefused, log }: UplinkOptions): Uplink => {
  const closing = new AbortController()
  const { signal } = closing
  let identity: { id: string; token: string } | undefined
  let everyMs = 2000
  let urgent = false
  let wake: () => void = () => {}
  const firstTry = Promise.withResolvers<void>()
  let tried = false
  let known = false
  let running: Promise<void> = Promise.resolve()
  let failing = false

  const follow = async (instructions: AgentInstructions): Promise<void> => {
    everyMs = instructions.heartbeat_seconds * 1000
    await onInstructions(instructions).catch((err: unknown) => log.error({ err }, 'what the broker asked for failed'))
  }

  const enroll = async (): Promise<void> => {
    const registered = await register({ broker, request: inventory, onFailure: triedOnce, untilRefused: !known, log, signal })
    known = true
    identity = { id: registered.agent_id, token: registered.agent_token }
    await onRegistered(registered)
    await follow(registered)
    triedOnce()
  }

  const triedOnce = (): void => {
    tried = true
    firstTry.resolve()
  }

  const beat = async (agent: { id: string; token: string }, partial: boolean): Promise<void> => {
    try {
      await follow(await broker.heartbeat(agent, heartbeat(partial), signal))
      if (failing) log.info('the broker hears us again')
      failing = false
    } catch (err) {
      if (err instanceof BoxofficeError && ['UNAUTHENTICATED', 'NOT_FOUND', 'FORBIDDEN'].includes(err.code)) identity = undefined
      if (!failing && !signal.aborted) log.warn({ err }, 'heartbeat failed; the broker keeps what it knows')
      failing = true
    }
  }

  /** Until the next turn, or until something cannot wait for it. */
  const pause = async (): Promise<void> => {
    if (urgent) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      wake = resolve
      timer = setTimeout(resolve, everyMs)
    })
    clearTimeout(timer)
  }

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      if (identity === undefined) await enroll()
      await pause()
      if (signal.aborted) return
      const partial = urgent
      urgent = false
      if (identity !== undefined) await beat(identity, partial)
    }
  }

  return {
    get agentId() {
      return identity?.id
    },
    async start() {
      running = run().catch((err: Error) => {
        if (signal.aborted) return firstTry.resolve()
        log.error({ err }, 'the uplink ended')
        if (tried) onRefused(err)
        else firstTry.reject(err)
      })
      await firstTry.promise
    },
    reportNow() {
      urgent = true
      wake()
    },
    async close() {
      closing.abort()
      wake()
      await running
    },
  }
}
