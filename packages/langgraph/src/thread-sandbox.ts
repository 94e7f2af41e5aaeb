import type { Client, Session, SessionOptions } from '@boxoffice/client'
import { getConfig } from '@langchain/langgraph'

/** The configuration of a run, as nodes and tools get it. */
export type RunWithThread = { configurable?: Record<string, unknown> | undefined; signal?: AbortSignal | undefined }

/**
 * The sandbox of a thread, started if there is none. `run` is a thread id or a run's configuration; without it the run that calls is
 * meant. All who ask for one thread get one sandbox, however many ask at once: the broker sees to that, so nothing is kept here.
 * Rejects with a `TypeError` where there is no thread id, else with the SDK's errors.
 */
export const getOrCreateSandboxForThread = async (
  client: Client,
  run?: string | RunWithThread,
  options: SessionOptions = {},
): Promise<Session> => {
  if (typeof run === 'string') return await client.session(run, options)
  const { configurable, signal } = run ?? getConfig() ?? {}
  const threadId: unknown = configurable?.thread_id
  if (typeof threadId !== 'string' || threadId === '')
    throw new TypeError('the run has no thread; invoke the graph with { configurable: { thread_id } }')
  return await client.session(threadId, { signal, ...options })
}
