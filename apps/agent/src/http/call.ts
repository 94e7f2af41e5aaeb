import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BoxofficeError, SessionTokenClaims } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { DiskFloor } from '../host/disk-floor.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { DataplaneLimits } from './dataplane-limits.ts'
import type { Query } from './query.ts'
import type { ResponseBudget } from './responses/response-budget.ts'
import type { UploadQuotas } from './upload-limit.ts'

/** One authorised request on a sandbox. Handlers work on Node's own streams: bytes pass without another layer. */
export type Call = {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly requestId: string
  readonly claims: SessionTokenClaims
  readonly sandbox: Sandbox
  readonly query: Query
  /** The id in the path, for routes that have one. */
  readonly id: string
  /** A LangSmith-shaped alias (contract 7.4): paths mean the sandbox's own file system. */
  readonly alias: boolean
  /** Aborts when the client goes away before the response is complete. */
  readonly signal: AbortSignal
  /** Calls back when the session ends or the token is revoked while the request runs [C-28]. */
  readonly onSessionEnd: (listener: (reason: BoxofficeError) => void) => void
  readonly limits: DataplaneLimits
  readonly answers: ResponseBudget
  readonly disk: DiskFloor
  /** Undefined where workspaces are not counted. */
  readonly quotas: UploadQuotas | undefined
  readonly log: Logger
}

export type Handler = (call: Call) => void | Promise<void>
