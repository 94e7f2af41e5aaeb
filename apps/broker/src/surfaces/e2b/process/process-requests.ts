import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import { z } from 'zod'

/** Messages of E2B's `process.Process` service, as JSON of protobuf (contract 7.3). */
const Uint32 = z.coerce.number().int().min(0).max(0xffff_ffff)
const Selector = z.object({ process: z.object({ pid: Uint32.optional(), tag: z.string().optional() }).optional() })
const Size = z.object({ size: z.object({ cols: Uint32.default(0), rows: Uint32.default(0) }) })

export const StartRequest = z.object({
  process: z.object({
    cmd: z.string().min(1).max(4096),
    args: z.array(z.string()).default([]),
    envs: z.record(z.string(), z.string()).default({}),
    cwd: z.string().max(4096).optional(),
  }),
  pty: Size.optional(),
  tag: z.string().optional(),
  /** Absent in requests of old clients, whose processes always have it. */
  stdin: z.boolean().default(true),
})
export type StartRequest = z.infer<typeof StartRequest>

export const ConnectRequest = Selector
export const CloseStdinRequest = Selector
export const SendInputRequest = Selector.extend({ input: z.object({ stdin: z.base64().optional(), pty: z.base64().optional() }) })
export const UpdateRequest = Selector.extend({ pty: Size.optional() })
const SIGNALS = { SIGNAL_SIGTERM: 'TERM', SIGNAL_SIGKILL: 'KILL', 15: 'TERM', 9: 'KILL' } as const
export const SendSignalRequest = Selector.extend({
  signal: z.union([z.literal(['SIGNAL_SIGTERM', 'SIGNAL_SIGKILL']), z.literal([9, 15])]).transform((signal) => SIGNALS[signal]),
})

/** Checks a message; INVALID_REQUEST names what is wrong. */
export function readMessage<T>(schema: z.ZodType<T>, message: unknown): T {
  const parsed = schema.safeParse(message)
  if (parsed.success) return parsed.data
  throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
}
