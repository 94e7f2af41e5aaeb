import type { ResolvedBrokerConfig } from '../../config/config.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import { isLive } from '../../domain/session.ts'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionEffects } from '../../sessions/effects.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Store } from '../../store/store.ts'
import { type KnownCallers, knownCallers } from '../facade/callers.ts'
import { createStepsApp } from './app.ts'
import { listenForSteps, type StepsListener } from './listener.ts'
import { Steps } from './steps.ts'

export type StepsSurfaceOptions = Omit<KnownCallers, 'addressOf'> & {
  settings: ResolvedBrokerConfig
  store: Store
  sessions: SessionService
  effects: SessionEffects
  dataplane: DataplaneClient
  metrics: Metrics
  log: Log
  /** Where steps are logged; undefined: `log`. */
  stepsLog?: Log | undefined
}

/** The steps API: below a path of the broker where the settings want it, and on listeners of its own. */
export type StepsSurface = Surface & { serve(options: { host: string; port: number }): Promise<StepsListener> }

const BASE = '/compat/sbs'

export function createStepsSurface({
  settings,
  store,
  sessions,
  effects,
  dataplane,
  metrics,
  log,
  stepsLog,
  ...callers
}: StepsSurfaceOptions): StepsSurface {
  const isOver = async (id: string): Promise<boolean> => {
    const session = await store.sessions.byId(id)
    if (session === undefined) throw new Error(`session ${id} is not in the store`)
    return !isLive(session)
  }
  const stepsWith = (profile: string | null): Steps =>
    new Steps({
      sessions,
      dataplane,
      profile,
      isOver,
      log: stepsLog ?? log,
      timeoutSeconds: settings.stepTimeout,
      ended: (id) => effects.ended(id),
    })
  const callerOf = knownCallers({ ...callers, addressOf: clientAddress(settings.trustedProxies) })
  return {
    name: 'steps',
    mounts: settings.compat.sbs
      ? [{ path: BASE, app: createStepsApp({ steps: stepsWith(null), callerOf, base: BASE, metrics, log }) }]
      : [],
    serve: (options) => listenForSteps({ ...options, maxConnections: settings.maxConnections, steps: stepsWith('sbs'), metrics, log }),
  }
}
