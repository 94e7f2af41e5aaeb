import { getConfig } from '@langchain/langgraph'

/** What the run that calls has in its configuration; nothing outside of a run. All of it comes from the run's caller. */
export type RunConfig = { threadId: string | undefined; sandbox: unknown; signal: AbortSignal | undefined }

/** Sub-agents run with the configuration of their parent, so that they have its thread id. */
export const runConfig = (): RunConfig => {
  const { configurable, signal } = getConfig() ?? {}
  const threadId: unknown = configurable?.thread_id
  return { threadId: typeof threadId === 'string' && threadId !== '' ? threadId : undefined, sandbox: configurable?.sandbox, signal }
}
