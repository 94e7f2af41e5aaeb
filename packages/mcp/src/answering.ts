import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server'
import { type ErrorData, toProtocolError } from './errors.ts'

type Answer = { text: string[]; structuredContent: Record<string, unknown> }

/** A refusal is a result that the model reads, not a JSON-RPC error. */
export const answeringWith =
  (report: (error: Error) => void) =>
  <A>(work: (args: A, context: ServerContext) => Promise<Answer>) =>
  async (args: A, context: ServerContext): Promise<CallToolResult> => {
    try {
      const { text, structuredContent } = await work(args, context)
      return { content: [{ type: 'text', text: text.join('\n') }], structuredContent }
    } catch (thrown) {
      const error = toProtocolError(thrown, report)
      const code = (error.data as ErrorData | undefined)?.error.code
      return { isError: true, content: [{ type: 'text', text: code === undefined ? error.message : `${code}: ${error.message}` }] }
    }
  }
