import { fromUnknown } from '@boxoffice/protocol'
import type { Placement } from './agents/placement.ts'
import type { RelayHealth, RelayProbe } from './relay/probe.ts'
import type { Store } from './store/store.ts'

/** Why sessions cannot be served now, for `/readyz`: the database, a provider, then the way to the agents. */
export async function readiness(store: Store, placement: Placement, probe: RelayProbe): Promise<RelayHealth> {
  const reasons: string[] = []
  await store
    .ping()
    .catch((thrown: unknown) =>
      reasons.push(fromUnknown(thrown).details?.reason === 'disk_full' ? 'disk_full' : 'the database does not answer'),
    )
  await placement.choose().catch((thrown: unknown) => reasons.push((thrown as Error).message))
  if (reasons.length > 0) return { reasons, warnings: [] }
  return probe.health()
}
