import { execForModel, type ModelExecOptions, type Session } from '@boxoffice/client'
import { MODEL_EXEC_NAMES, ModelExecInput, ModelExecResult } from '@boxoffice/protocol'
import type { McpServer, ServerContext } from '@modelcontextprotocol/server'
import { answeringWith } from './base/answering.ts'
import { brokerBase } from './base/broker.ts'

export type ExecToolOptions = ModelExecOptions & {
  brokerUrl: string
  /** The session in which this caller's commands run; asked for at each call. */
  session: (context: ServerContext) => Promise<Pick<Session, 'id' | 'provider' | 'exec'>>
  /** Default `exec`. */
  name?: (typeof MODEL_EXEC_NAMES)[number] | undefined
  /** Milliseconds between two looks at whether the broker can run anything. Default 5000. */
  lookEveryMs?: number | undefined
  /** Default: the runtime's own. */
  fetch?: typeof globalThis.fetch | undefined
}

/** A broker that does not answer within this time, in milliseconds, is not ready. */
const ANSWER_MS = 5000

/**
 * Gives an MCP server the tool with which a model runs a command: exactly `command, workdir, timeout_sec, env` [2-16]. It is offered
 * only while the broker is ready to run something [0-53, 2-49]; clients that listen are told when that changes. Resolves when the
 * broker has been asked for the first time; the function that it gives ends the asking.
 */
export const mountExec = async (server: McpServer, options: ExecToolOptions): Promise<() => void> => {
  const { brokerUrl, session, name = MODEL_EXEC_NAMES[0], lookEveryMs = 5000, fetch = globalThis.fetch, ...limits } = options
  const readyUrl = `${brokerBase(brokerUrl)}/readyz`
  const isReady = async (): Promise<boolean> =>
    await fetch(readyUrl, { redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) }).then(
      async (response) => {
        await response.body?.cancel()
        return response.ok
      },
      () => false,
    )

  const answering = answeringWith((error) => server.server.onerror?.(error))
  const tool = server.registerTool(
    name,
    {
      title: 'Run a command',
      description: 'Runs a line of shell in the sandbox of this conversation; what it leaves behind there stays',
      inputSchema: ModelExecInput,
      outputSchema: ModelExecResult,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    },
    answering(async (input: ModelExecInput, context) => {
      const result = await execForModel(await session(context), input, { ...limits, signal: context.mcpReq.signal })
      return { text: [JSON.stringify(result)], structuredContent: result }
    }),
  )

  let timer: ReturnType<typeof setTimeout>
  let stopped = false
  const look = async (): Promise<void> => {
    const ready = await isReady()
    if (stopped) return
    if (ready !== tool.enabled) tool.update({ enabled: ready })
    timer = setTimeout(() => void look(), lookEveryMs)
    // Looking is no reason for a program to stay.
    if (typeof timer === 'object') timer.unref()
  }
  await look()
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}
