import { backoffMs } from '@boxoffice/kit/backoff'
import { retry } from '@boxoffice/kit/retry'
import { BoxofficeError, type RegisterAgentRequest, type RegisterAgentResponse } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { BrokerClient } from './broker-client.ts'

const BACKOFF = { firstMs: 100, mostMs: 5000 }
const REPORTED_DRIFT_MS = 5000

export type RegisterOptions = {
  broker: BrokerClient
  /** Made anew for each try: it says what is there now. */
  request: () => RegisterAgentRequest
  /** Called when a try fails and another one follows. */
  onFailure: (error: unknown) => void
  /** A refused enroll token or key ends the tries: nobody can have known this agent yet, so nothing but another one helps. */
  untilRefused: boolean
  log: Logger
  signal: AbortSignal
}

/** Registers with the broker and tries until it succeeds; rejects when the signal aborts, or with `untilRefused` at a 401 or 403. */
export const register = ({ broker, request, onFailure, untilRefused, log, signal }: RegisterOptions): Promise<RegisterAgentResponse> => {
  const attempt = async (): Promise<RegisterAgentResponse> => {
    signal.throwIfAborted()
    const registered = await broker.register(request(), signal)
    if (Math.abs(registered.clock_drift_ms) > REPORTED_DRIFT_MS) {
      log.warn(
        { clock_drift_ms: registered.clock_drift_ms },
        'the clocks of agent and broker differ; tokens are judged by that of the broker',
      )
    }
    log.info({ agent_id: registered.agent_id }, 'registered with the broker')
    return registered
  }
  return retry(attempt, {
    waitMs: (err, failures) => {
      if (untilRefused && err instanceof BoxofficeError && err.code === 'UNAUTHENTICATED') throw refused(err)
      if (untilRefused && err instanceof BoxofficeError && err.code === 'FORBIDDEN') throw err
      onFailure(err)
      if (!signal.aborted && failures % 10 === 1) log.warn({ err }, 'could not register with the broker; trying again')
      return backoffMs(failures, BACKOFF)
    },
    signal,
  })
}

const refused = (cause: BoxofficeError): BoxofficeError =>
  new BoxofficeError(
    'UNAUTHENTICATED',
    `the broker refused the enroll token; start the agent with the one of the broker (--enroll-token there, or enroll-token in its data directory), or let the broker know the service account (kubernetes_agents there): ${cause.message}`,
    { cause },
  )
