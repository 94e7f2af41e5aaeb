import type { Actor, RelayPreference, Scope } from '@boxoffice/protocol'
import { type RequestedCapabilities, readRequested } from '../domain/capabilities.ts'
import type { LabelQuota } from '../domain/creation.ts'
import type { SandboxOverrides } from '../domain/sandbox-overrides.ts'
import { threadScope } from '../domain/scope.ts'
import type { AgentRecord } from '../store/store.ts'
import type { Repeatable } from './idempotency.ts'

export type NegotiateRequest = {
  scope: Scope
  /** `attach_only` is `get` by another name [4-73]. */
  mode: 'get' | 'ensure' | 'create_only'
  shape: 'mvp' | 'full'
  /** Undefined: the caller itself. */
  actor: Actor | undefined
  requested: RequestedCapabilities
  sandboxHint: string | null
  /** Null: any. */
  provider: string | null
  /** Null: the default one for a new session, any for one that exists. */
  profile: string | null
  /** What the sandbox is to have different from its profile; other mounts make the one of a live session anew [0-34]. */
  overrides: SandboxOverrides | null
  /** Null: as the session has it. */
  relay: RelayPreference | null
  labels: Record<string, string>
  onMismatch: 'warn' | 'fail'
  /** The client has named the image of `overrides`; one of the operator is not used where there are none. */
  needsImage?: boolean
  /** A new sandbox is made by an agent that is there for this alone. */
  reserved?: AgentRecord['provider']['reserved']
  /** Who else may use the scope from now on; null: as it is. By its owner only. */
  members: readonly string[] | null
  /** Whole seconds that the caller waits for a sandbox that starts [C-17]. */
  wait: number
  repeatable: Repeatable | null
  /** Of new sessions with the label at most so many live ones per tenant; counted with the creation. */
  labelQuota?: LabelQuota | null
}

/** A request by the broker itself for the session of a thread: what `fields` leave out is as the session and its profile have it. */
export const internalRequest = (
  threadId: string,
  fields: Pick<NegotiateRequest, 'mode' | 'labels' | 'wait'> & Partial<NegotiateRequest>,
): NegotiateRequest => ({
  scope: threadScope(threadId),
  shape: 'full',
  actor: undefined,
  requested: readRequested(undefined),
  sandboxHint: null,
  provider: null,
  profile: null,
  overrides: null,
  relay: null,
  onMismatch: 'warn',
  members: null,
  repeatable: null,
  ...fields,
})
