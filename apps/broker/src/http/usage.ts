import type { Profile, Rate } from '@boxoffice/protocol'
import { z } from 'zod'
import type { ResolvedBrokerConfig } from '../config.ts'
import type { Store } from '../store/store.ts'
import { type AnyRoute, defineRoute } from './route.ts'

const RateSpec = z.object({ per_second: z.number(), burst: z.number() })
const Limited = z.object({ live: z.number().int(), max: z.number().int() })

const Usage = z.object({
  tenant: z.string(),
  sessions: Limited.extend({ by_state: z.record(z.string(), z.number().int()) }),
  /** Of the Box surface; they count among the sessions too. */
  box_sessions: Limited,
  /** What runs now, as agents reported it last; the limits are those of the default profile, for one sandbox. */
  processes: z.object({ sessions_busy: z.number().int(), max_execs_per_sandbox: z.number().int(), pids_per_sandbox: z.number().int() }),
  /** 0: not limited. */
  disk: z.object({ workspace_quota_mb: z.number().int() }),
  /** New sessions; null where nothing is limited. */
  rates: z.object({ create_per_principal: RateSpec, create_per_tenant: RateSpec, control_per_principal: RateSpec.nullable() }),
})

export type UsageOptions = { store: Store; settings: ResolvedBrokerConfig; profiles: ReadonlyMap<string, Profile> }

/** What a tenant has in use and may have (contract 2.13) [0-50 to 0-55]. */
export const usageRoutes = ({ store, settings, profiles }: UsageOptions): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/usage',
    summary: "The caller's tenant: what it has in use, and its limits",
    auth: 'key',
    responses: { 200: { description: 'Counts and limits', schema: Usage } },
    async handle({ principal }) {
      const [byState, boxes, busy] = await Promise.all([
        store.sessions.liveOf(principal.tenant, null),
        store.sessions.liveOf(principal.tenant, { key: 'langbot.box', value: 'true' }),
        store.sessions.busyOf(principal.tenant),
      ])
      const profile = profiles.get('default')
      const { createPerPrincipal, createPerTenant, controlPerPrincipal } = settings.rateLimits
      return {
        status: 200,
        json: {
          tenant: principal.tenant,
          sessions: { live: sum(byState), max: settings.maxSessions, by_state: byState },
          box_sessions: { live: sum(boxes), max: settings.box.maxSessions },
          processes: {
            sessions_busy: busy,
            max_execs_per_sandbox: profile?.max_execs ?? 0,
            pids_per_sandbox: profile?.pids_limit ?? 0,
          },
          disk: { workspace_quota_mb: profile?.workspace_quota_mb ?? 0 },
          rates: {
            create_per_principal: toWire(createPerPrincipal),
            create_per_tenant: toWire(createPerTenant),
            control_per_principal: controlPerPrincipal === undefined ? null : toWire(controlPerPrincipal),
          },
        },
      }
    },
  }),
]

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((all, one) => all + one, 0)
const toWire = ({ perSecond, burst }: Rate) => ({ per_second: perSecond, burst })
