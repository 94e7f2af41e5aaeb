import { BoxofficeError, type MountSet, type Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { isRoot, type Owner } from '../../data-dir/layout.ts'
import type { Uids } from '../../data-dir/uids.ts'
import { hostOwner } from '../../mounts/ownership.ts'
import { type MountPlan, planMounts } from '../../mounts/plan.ts'
import type { MountPolicy } from '../../mounts/policy.ts'
import type { Provider } from '../../sandbox/provider.ts'

export type PlannerOptions = {
  /** The provider, or a BACKEND_UNAVAILABLE that says why there is none. */
  provider: () => Provider
  uids: Uids
  mountPolicy: MountPolicy
  /** The workspace of sandboxes for which none is named; all of them see it. */
  defaultHostWorkspace: string | undefined
  log: Logger
}

/** What is settled before a sandbox is made; whatever is refused is refused here, and nothing has begun. */
export interface Planner {
  /** Throws where the policy, or the provider, does not allow these mounts. */
  mounts(mounts: MountSet, profile: Profile): Promise<MountPlan>
  /** As whom a sandbox runs (contract 9): the owner of its workspace, unless that is root. */
  owner(plan: MountPlan, profile: Profile, existing: Owner | undefined): Promise<Owner>
}

export const createPlanner = ({ provider, uids, mountPolicy: policy, defaultHostWorkspace, log }: PlannerOptions): Planner => ({
  async mounts(mounts, profile) {
    const plan = await planMounts(mounts, { policy, defaultHostWorkspace, appAlias: profile.app_alias, log })
    const { name, capabilities } = provider()
    if (!capabilities.extraMounts && (plan.mounts.length > 0 || plan.workspace?.readOnly))
      throw new BoxofficeError(
        'UNSUPPORTED',
        `mounts: the ${name} provider cannot mount anything here; leave mounts out, or use another provider`,
      )
    return plan
  },
  async owner(plan, { user }, existing) {
    if (!isRoot()) return uids.allot()
    const chosen = user === null ? undefined : ownerFrom(user)
    const owner = plan.workspace === null ? (existing ?? chosen) : (chosen ?? (await hostOwner(plan.workspace.source)))
    return owner ?? uids.allot()
  },
})

/** Throws UNSUPPORTED for what the provider cannot do here. */
export const assertPossible = ({ name, capabilities }: Provider, { network, oci_runtime: runtime, isolation, user }: Profile): void => {
  if (isolation !== null && isolation !== capabilities.isolation)
    throw new BoxofficeError('UNSUPPORTED', `isolation: the ${name} provider has "${capabilities.isolation}" here, not "${isolation}"`)
  if (user !== null && !isRoot())
    throw new BoxofficeError('UNSUPPORTED', 'user: the agent is not root, and runs all sandboxes as its own user; leave it out')
  if (network === 'on' && !capabilities.network && !capabilities.egress)
    throw new BoxofficeError('UNSUPPORTED', `network: the ${name} provider cannot grant network access here; choose a profile without it`)
  if (network === 'proxy' && !capabilities.egress)
    throw new BoxofficeError(
      'UNSUPPORTED',
      `network: the ${name} provider has "${capabilities.isolation}" isolation here, so it cannot hold programs to the proxy; choose another profile`,
    )
  if (runtime !== null && !capabilities.ociRuntimes.includes(runtime)) {
    throw new BoxofficeError('UNSUPPORTED', `oci_runtime: the ${name} provider has no runtime "${runtime}"`)
  }
}

const ownerFrom = (user: string): Owner => {
  const [uid = 0, gid = uid] = user.split(':').map(Number)
  return { uid, gid }
}
