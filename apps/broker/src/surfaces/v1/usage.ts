import type { Rate } from '@boxoffice/node-http'
import type { Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import type { ResolvedBrokerConfig } from '../../config/config.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { TenantUsage } from '../../sessions/tenant-usage.ts'
import type { Store } from '../../store/store.ts'

const RateSpec = z.object({ per_second: z.number(), burst: z.number() })
const Limited = z.object({ live: z.number().int(), max: z.number().int() })

const Usage = z.object({
  tenant: z.string(),
  sessions: Limited.extend({ by_state: z.record(z.string(), z.number().int()) }),
  /** Of the Box surface; they count among the sessions too. */
  box_sessions: Limited,
  /**
   * Execs, shells and managed processes that run now, and sandboxes of which their agent could not say it; `sessions_busy` as agents
   * reported it last. The limits are those of the default profile, for one sandbox.
   */
  processes: z.object({
    running: z.number().int(),
    unknown: z.number().int(),
    sessions_busy: z.number().int(),
    max_execs_per_sandbox: z.number().int(),
    pids_per_sandbox: z.number().int(),
  }),
  /** `used`, only when it is asked for: what the workspaces of live sandboxes hold. `workspace_quota_mb` 0: not limited. */
  disk: z.object({
    workspace_quota_mb: z.number().int(),
    used: z.object({ bytes: z.number(), entries: z.number().int(), unknown: z.number().int() }).nullable(),
  }),
  /** New sessions; null where nothing is limited. */
  rates: z.object({ create_per_principal: RateSpec, create_per_tenant: RateSpec, control_per_principal: RateSpec.nullable() }),
})

const UsageQuery = z.object({
  disk: z.enum(['true', 'false']).default('false').describe('true: count the disk too, which reads every directory'),
})

export type UsageOptions = { store: Store; usage: TenantUsage; settings: ResolvedBrokerConfig; profiles: ReadonlyMap<string, Profile> }

/** What a tenant has in use and may have (contract 2.13) [0-50 to 0-55]. */
export const usageRoutes = ({ store, usage, settings, profiles }: UsageOptions): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/usage',
    summary: "The caller's tenant: what it has in use, and its limits",
    auth: 'key',
    query: UsageQuery,
    responses: { 200: { description: 'Counts and limits', schema: Usage } },
    async handle({ principal, query }) {
      const [byState, boxes, busy, processes, used] = await Promise.all([
        store.counts.liveOf(principal.tenant, null),
        store.counts.liveOf(principal.tenant, { key: 'langbot.box', value: 'true' }),
        store.counts.busyOf(principal.tenant),
        usage.processes(principal.tenant),
        query.disk === 'true' ? usage.disk(principal.tenant) : null,
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
            ...processes,
            sessions_busy: busy,
            max_execs_per_sandbox: profile?.max_execs ?? 0,
            pids_per_sandbox: profile?.pids_limit ?? 0,
          },
          disk: { workspace_quota_mb: profile?.workspace_quota_mb ?? 0, used },
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
