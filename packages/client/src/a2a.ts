import type { Session } from './session.ts'

/** The key of a session in the metadata of an A2A task; the artifact names it as its extension. */
export const A2A_SESSION = 'urn:boxoffice:a2a:sandbox-session:v1'

/** What another agent needs to find the sandbox; the right to use it it gets from the broker, with its own credential. */
export type A2ASession = {
  session_id: string
  sandbox_id: string
  broker_url: string
  /** When the access of the one who shares it ends, unless it is renewed. */
  expires_at: string
  /** Null: a broker of the MVP, which does not say. */
  mode: 'direct' | 'relay' | null
}

type A2APart = {
  content: { $case: 'url'; value: string }
  filename: string
  mediaType: string
  metadata: { [A2A_SESSION]: { base_url: 'http' | 'websocket' } }
}

/** Fields of an A2A task, as `@a2a-js/sdk` has them in memory. */
export type A2ATaskFields = {
  /** The sandbox: tasks of one context share it. */
  contextId: string
  metadata: { [A2A_SESSION]: A2ASession }
  artifacts: [
    {
      artifactId: string
      name: string
      description: string
      parts: A2APart[]
      metadata: undefined
      extensions: string[]
    },
  ]
}

/**
 * Tells an A2A peer of a session [4-174]. A token is never in it.
 *
 *   const task: Task = { id, status, history, ...toA2A(session) }
 */
export const toA2A = (
  session: Pick<Session, 'id' | 'sandboxId' | 'brokerUrl' | 'httpBaseUrl' | 'wsBaseUrl' | 'expiresAt' | 'details'>,
): A2ATaskFields => ({
  contextId: session.sandboxId,
  metadata: {
    [A2A_SESSION]: {
      session_id: session.id,
      sandbox_id: session.sandboxId,
      broker_url: session.brokerUrl,
      expires_at: `${session.expiresAt.toISOString().slice(0, 19)}Z`,
      mode: session.details.mode ?? null,
    },
  },
  artifacts: [
    {
      artifactId: session.id,
      name: 'sandbox',
      description: 'The dataplane of a sandbox: negotiate with the broker of the metadata for a token of your own',
      parts: [urlPart('http', session.httpBaseUrl), urlPart('websocket', session.wsBaseUrl)],
      metadata: undefined,
      extensions: [A2A_SESSION],
    },
  ],
})

const urlPart = (base_url: 'http' | 'websocket', value: string): A2APart => ({
  content: { $case: 'url', value },
  filename: '',
  mediaType: '',
  metadata: { [A2A_SESSION]: { base_url } },
})
