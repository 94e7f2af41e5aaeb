import { BoxofficeError } from '@boxoffice/protocol'

/** Where a server failed [2-89]. */
export const ERROR_PHASES = ['session_create', 'dep_install', 'process_start', 'relay_connect', 'mcp_init', 'runtime', 'tool_call'] as const
export type ErrorPhase = (typeof ERROR_PHASES)[number]

/** A failure that knows where it happened. */
export class McpServerError extends Error {
  readonly phase: ErrorPhase
  /** `box_unavailable`: nothing is there that could run it; it is not the server's failure. */
  readonly reason: 'box_unavailable' | null

  constructor(phase: ErrorPhase, message: string, { reason = null, cause }: { reason?: 'box_unavailable' | null; cause?: unknown } = {}) {
    super(message, { cause })
    this.name = 'McpServerError'
    this.phase = phase
    this.reason = reason
  }
}

/** Does the work of one phase: whatever it throws says which one it was. */
export async function inPhase<T>(phase: ErrorPhase, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (thrown instanceof McpServerError) throw thrown
    throw new McpServerError(phase, messageOf(thrown), { cause: thrown })
  }
}

/** What may be told: our own errors are made for that, others' text is kept short. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof BoxofficeError ? thrown.message : thrown instanceof Error ? thrown.message.slice(0, 500) : String(thrown).slice(0, 500)
