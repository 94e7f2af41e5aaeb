import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import { z } from 'zod'
import type { E2bSandbox } from '../../../store/e2b-store.ts'
import { stateOf } from './views.ts'

const MAX_PAGE = 100

/** The query of `GET /v2/sandboxes`. A page may have fewer than `limit` sandboxes, also none, and yet name a next one. */
const Listing = z.object({
  limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(MAX_PAGE),
  nextToken: z.string().max(1000).optional(),
  /** URL-encoded pairs that a sandbox's metadata must have. */
  metadata: z.string().max(10_000).optional(),
  state: z.string().optional(),
  template: z.string().optional(),
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  order: z.enum(['asc', 'desc']).optional(),
})
export type Listing = z.infer<typeof Listing>

export function readListing(query: Record<string, string>): Listing {
  const parsed = Listing.safeParse(query)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
  if (parsed.data.order === 'desc') throw new BoxofficeError('UNSUPPORTED', 'order: sandboxes are listed oldest first')
  return parsed.data
}

/** Whether the listing asks for this sandbox. */
export function selects({ metadata, state, template, startedAfter }: Listing, sandbox: E2bSandbox): boolean {
  if (state !== undefined && !state.split(',').includes(stateOf(sandbox.paused))) return false
  if (template !== undefined && template !== sandbox.template) return false
  if (startedAfter !== undefined && sandbox.startedAt <= Date.parse(startedAfter)) return false
  // The client encodes twice: each name and value, and then the pairs.
  const pairs = metadata === undefined ? [] : [...new URLSearchParams(metadata)]
  return pairs.every(([name, value]) => sandbox.metadata[decoded(name)] === decoded(value))
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
