import type { Surface } from '../http/surface.ts'
import { type BoxOptions, createBox } from './box/box.ts'
import type { RpcResponse } from './box/rpc.ts'
import { createDocumentation } from './documentation/documentation.ts'
import { createE2b, type E2bOptions } from './e2b/e2b-surface.ts'
import { createLangSmith, type LangSmithOptions } from './langsmith/langsmith.ts'
import { createMcp, type McpOptions } from './mcp/mcp.ts'
import { createMcpTools, type McpToolsOptions } from './mcp-tools/mcp-tools.ts'
import { createN8n, type N8nOptions } from './n8n/n8n.ts'
import type { StepsListener } from './sbs/listener.ts'
import { createStepsSurface, type StepsSurfaceOptions } from './sbs/steps-surface.ts'
import { createV1, type V1Options } from './v1/v1.ts'

/** What the surfaces are made of, once for all of them. */
export type SurfaceParts = V1Options &
  McpOptions &
  McpToolsOptions &
  StepsSurfaceOptions &
  BoxOptions &
  E2bOptions &
  LangSmithOptions &
  N8nOptions

export type Surfaces = {
  /** Every API of the broker, as the settings want it. */
  list: readonly Surface[]
  /** The steps API on a listener of its own. */
  serveSteps(options: { host: string; port: number }): Promise<StepsListener>
  /** One message of the Box surface from the program that started this one. */
  boxRpc(message: string): Promise<RpcResponse>
}

/** The one list of the broker's APIs: another one is another line here. */
export function createSurfaces(parts: SurfaceParts): Surfaces {
  const steps = createStepsSurface(parts)
  const box = parts.settings.compat.box ? createBox(parts) : undefined
  const e2b = parts.settings.compat.e2b ? [createE2b(parts)] : []
  const langsmith = parts.settings.compat.langsmith ? [createLangSmith(parts)] : []
  const n8n = parts.settings.compat.n8n ? [createN8n(parts)] : []
  const apis = [
    createV1(parts),
    createMcp(parts),
    createMcpTools(parts),
    steps,
    ...(box === undefined ? [] : [box]),
    ...e2b,
    ...langsmith,
    ...n8n,
  ]
  return {
    list: [...apis, createDocumentation(apis, parts.url)],
    serveSteps: (options) => steps.serve(options),
    async boxRpc(message) {
      if (box === undefined) throw new Error('the Box surface is off')
      return box.rpc(message)
    },
  }
}
