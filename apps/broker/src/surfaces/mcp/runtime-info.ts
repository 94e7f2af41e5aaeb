import type { ErrorPhase } from './phases.ts'

/** `retrying`: it has failed and is tried again; `error`: it is not, until somebody asks for it. */
export type ServerStatus = 'starting' | 'connected' | 'retrying' | 'unavailable' | 'error' | 'stopped'

export type ToolSummary = { name: string; description: string }

/** What is told of a server [2-94]. Nothing of its environment is in it [2-97]. */
export type RuntimeInfo = {
  status: ServerStatus
  error_message: string | null
  error_phase: ErrorPhase | null
  retry_count: number
  tool_count: number
  tools: readonly ToolSummary[]
  box_session_id: string
  box_enabled: boolean
  warnings: readonly string[]
}

/** What a server writes before it dies may have anything in it, its environment too. */
export function redact(text: string, env: Readonly<Record<string, string>>): string {
  const values = Object.values(env).filter((value) => value.length >= MIN_SECRET)
  return values.sort((a, b) => b.length - a.length).reduce((left, value) => left.replaceAll(value, '***'), text)
}

/** What is shorter stands in every text. */
const MIN_SECRET = 4
