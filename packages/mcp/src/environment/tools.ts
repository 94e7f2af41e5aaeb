import { Credentials, HeartbeatResponse, NegotiateResponse, RefreshResponse } from '@boxoffice/protocol'
import { z } from 'zod'
import type { ToolCall, ToolDefinition } from '../base/tool.ts'
import { AcquireParams, acquire, HeartbeatParams, heartbeat, perform, RefreshParams, ReleaseParams, refresh, release } from './methods.ts'

const IncludeToken = z.object({
  include_token: z.boolean().default(false).describe('Put the token into the structured content. Models do not need it; programs may'),
})

/** What the tools answer: fields that these schemas do not name are left out, so no secret of a newer broker slips through. */
const AcquireOutput = NegotiateResponse.extend({ credentials: Credentials.partial({ access_token: true }) }).partial({
  token: true,
  token_type: true,
  warnings: true,
  binding: true,
  dataplane: true,
  credentials: true,
  policy: true,
})
const RefreshOutput = RefreshResponse.partial({ token: true }).extend({ session_id: z.string() })
const ReleaseOutput = z.object({ session_id: z.string(), released: z.literal(true) })

/** A tool that takes no session: it asks the broker. */
export type EnvironmentTool<A> = ToolDefinition<A, Pick<ToolCall, 'broker' | 'context'>>

const define = <A>(definition: EnvironmentTool<A>): EnvironmentTool<A> => definition

/** The mirror of the methods for models [C-73]. A token is never in the text, and in the structured content only when asked for. */
export const acquireTool = define({
  name: 'environment_acquire',
  title: 'Acquire a sandbox',
  description: 'Gets the sandbox session of a thread or other scope (mode get), or makes sure that there is one (mode ensure)',
  inputSchema: AcquireParams.safeExtend(IncludeToken.shape),
  outputSchema: AcquireOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  run: async ({ include_token, ...params }, { broker, context }) => {
    const output = AcquireOutput.parse(await perform(acquire, params, broker, context))
    const { session_id, sandbox, binding, warnings = [], expires_at } = output
    const state = binding === undefined ? '' : `, ${binding.state}`
    return {
      text: [`Session ${session_id} has sandbox ${sandbox.id} (${sandbox.provider}${state}); access until ${expires_at}.`, ...warnings],
      structuredContent: include_token ? output : withoutToken(output),
    }
  },
})

export const refreshTool = define({
  name: 'environment_refresh',
  title: 'Refresh access to a sandbox',
  description: 'Issues a new token for a session; the old one stays good until its own end',
  inputSchema: RefreshParams.extend(IncludeToken.shape),
  outputSchema: RefreshOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  run: async ({ include_token, ...params }, { broker, context }) => {
    const { session_id } = params
    const output = RefreshOutput.parse({ ...(await perform(refresh, params, broker, context)), session_id })
    return {
      text: [`Access to session ${session_id} lasts until ${output.expires_at}.`],
      structuredContent: include_token ? output : withoutToken(output),
    }
  },
})

export const heartbeatTool = define({
  name: 'environment_heartbeat',
  title: 'Keep a sandbox',
  description: 'Says that the session is still needed, so that its sandbox is not put to sleep or ended for want of use',
  inputSchema: HeartbeatParams,
  outputSchema: HeartbeatResponse,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  run: async (params, { broker, context }) => {
    const output = HeartbeatResponse.parse(await perform(heartbeat, params, broker, context))
    return { text: [`Session ${params.session_id} is kept until ${output.lease_expires_at}.`], structuredContent: output }
  },
})

export const releaseTool = define({
  name: 'environment_release',
  title: 'Release a sandbox',
  description: 'Ends a session for everyone who uses it, with its processes and, unless kept, its files',
  inputSchema: ReleaseParams,
  outputSchema: ReleaseOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  run: async (params, { broker, context }) => {
    await perform(release, params, broker, context)
    const { session_id } = params
    return { text: [`Session ${session_id} is released.`], structuredContent: { session_id, released: true } }
  },
})

type WithToken = { token?: string | undefined; credentials?: { access_token?: string | undefined } | undefined }

const withoutToken = ({ token: _token, credentials, ...rest }: WithToken): Record<string, unknown> => {
  if (credentials === undefined) return rest
  const { access_token: _accessToken, ...others } = credentials
  return { ...rest, credentials: others }
}
