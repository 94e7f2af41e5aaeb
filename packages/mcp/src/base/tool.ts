import type { Session } from '@boxoffice/client'
import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import type { ServerContext, ToolAnnotations } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Answer } from './answering.ts'
import type { Broker } from './broker.ts'

/** One call of a tool: who asks, and what belongs to the caller. */
export type ToolCall = {
  broker: Broker
  context: ServerContext
  /** Ends when the caller cancels, or has gone. */
  signal: AbortSignal
  /** The session of the caller's thread; made where there is none. */
  session: () => Promise<Session>
  /** The session has been released: the next call makes another one. */
  forgetSession: () => void
}

export type ToolDefinition<A, C> = {
  name: string
  title: string
  description: string
  inputSchema: z.ZodType<A>
  outputSchema: z.ZodType
  annotations: ToolAnnotations
  run: (args: A, call: C) => Promise<Answer>
}

type JsonObject = { type: 'object'; [key: string]: unknown }

/** A tool as `tools/list` shows it, and what answers its calls. Its schemas are converted once. */
export type Tool = {
  listed: Pick<ToolDefinition<never, never>, 'name' | 'title' | 'description' | 'annotations'> & {
    inputSchema: JsonObject
    outputSchema: JsonObject
  }
  /** Rejects with INVALID_REQUEST for arguments that the tool does not have. */
  call: (args: unknown, call: ToolCall) => Promise<Answer>
}

export const toTool = <A>({ inputSchema, outputSchema, run, ...shown }: ToolDefinition<A, ToolCall>): Tool => ({
  listed: {
    ...shown,
    inputSchema: z.toJSONSchema(inputSchema, { io: 'input', unrepresentable: 'any' }) as JsonObject,
    outputSchema: z.toJSONSchema(outputSchema, { io: 'output', unrepresentable: 'any' }) as JsonObject,
  },
  async call(args, call) {
    const parsed = inputSchema.safeParse(args)
    if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
    return run(parsed.data, call)
  },
})

/** Annotations of tools that only look. */
export const READS: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }
/** Annotations of tools that change something in the sandbox: another call like it changes nothing more. */
export const WRITES: ToolAnnotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false }
/** Annotations of tools that run programs. */
export const RUNS: ToolAnnotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }
