import { BoxofficeError, type Session } from '@boxoffice/client'
import { z } from 'zod'
import { READS, toTool, WRITES } from '../base/tool.ts'

export const sessionInfo = toTool({
  name: 'session_info',
  title: 'Look at the sandbox',
  description: 'Says which sandbox this conversation has, and what may be done in it',
  inputSchema: z.strictObject({}),
  outputSchema: z.object({
    session_id: z.string(),
    thread_id: z.string().nullable(),
    sandbox_id: z.string(),
    provider: z.string(),
    mode: z.string().nullable(),
    capabilities: z.array(z.string()),
    state: z.string(),
    lease_expires_at: z.string(),
  }),
  annotations: READS,
  async run(_args, { session, signal }) {
    const opened = await session()
    const { binding, leaseExpiresAt } = await opened.heartbeat({ signal })
    const capabilities = opened.capabilities ?? []
    const lease_expires_at = leaseExpiresAt.toISOString()
    return {
      text: [
        `Session ${opened.id} has sandbox ${opened.sandboxId} (${opened.provider}, ${binding.state}) until ${lease_expires_at}.`,
        `Files are in /workspace. Allowed: ${capabilities.join(', ')}.`,
      ],
      structuredContent: {
        ...{ session_id: opened.id, thread_id: opened.threadId, sandbox_id: opened.sandboxId, provider: opened.provider },
        ...{ mode: opened.mode ?? null, capabilities, state: binding.state, lease_expires_at },
      },
    }
  },
})

export const sessionRelease = toTool({
  name: 'session_release',
  title: 'Release the sandbox',
  description: 'Ends the sandbox of this conversation, with its processes and, unless kept, its files. The next call makes a new one',
  inputSchema: z.strictObject({ keep_workspace: z.boolean().default(false).describe('Keep the files for the next sandbox') }),
  outputSchema: z.object({ session_id: z.string(), released: z.literal(true) }),
  annotations: WRITES,
  async run({ keep_workspace }, { session, forgetSession, signal }) {
    const opened: Session = await session()
    await opened.release({ keepWorkspace: keep_workspace, signal })
    forgetSession()
    return { text: [`Session ${opened.id} is released.`], structuredContent: { session_id: opened.id, released: true } }
  },
})

/** Codes of a session that is there no more, or no more the caller's: it is to be asked for again. */
const ENDED = new Set([
  'SESSION_RELEASED',
  'SESSION_EXPIRED',
  'BINDING_NOT_FOUND',
  'SESSION_NOT_FOUND',
  'SANDBOX_LOST',
  'UNAUTHENTICATED',
  'TOKEN_EXPIRED',
])

export const isEnded = (thrown: unknown): boolean => thrown instanceof BoxofficeError && ENDED.has(thrown.code)
