import { BoxofficeError } from '@boxoffice/client'
import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server'
import { type ErrorData, toProtocolError } from './errors.ts'

/** What a tool answers: lines that a model reads, and the same for programs. */
export type Answer = { text: string[]; structuredContent: Record<string, unknown> }

/** A refusal is a result that the model reads, not a JSON-RPC error. Defects go to `report`, and nothing of them into the result. */
export const toResult = async (work: Promise<Answer>, report: (error: Error) => void): Promise<CallToolResult> => {
  try {
    const { text, structuredContent } = await work
    return { content: [{ type: 'text', text: text.join('\n') }], structuredContent }
  } catch (thrown) {
    return { isError: true, content: [{ type: 'text', text: refusalText(thrown, report) }] }
  }
}

export const answeringWith =
  (report: (error: Error) => void) =>
  <A>(work: (args: A, context: ServerContext) => Promise<Answer>) =>
  (args: A, context: ServerContext): Promise<CallToolResult> =>
    toResult(work(args, context), report)

const refusalText = (thrown: unknown, report: (error: Error) => void): string => {
  if (thrown instanceof BoxofficeError) return `${thrown.code}: ${thrown.message}`
  const error = toProtocolError(thrown, report)
  const code = (error.data as ErrorData | undefined)?.error.code
  return code === undefined ? error.message : `${code}: ${error.message}`
}
