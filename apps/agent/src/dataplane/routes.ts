import type { Route } from '../http/router.ts'
import { execRoutes } from './exec.ts'
import { fileRoutes } from './files/routes.ts'
import { livenessRoutes } from './liveness.ts'
import { portRoutes } from './ports.ts'
import { processRoutes } from './processes.ts'

/** Every HTTP route of the dataplane. `docs/protocol/dataplane.openapi.json` describes each one. */
export const dataplaneRoutes: readonly Route[] = [...execRoutes, ...fileRoutes, ...processRoutes, ...portRoutes, ...livenessRoutes]
