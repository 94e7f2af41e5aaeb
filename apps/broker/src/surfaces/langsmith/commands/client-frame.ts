import { BoxofficeError, describeIssues, ExecId } from '@boxoffice/protocol'
import { z } from 'zod'
import { runFields } from './command-request.ts'

const seconds = z.number().nullish()
const offset = z.number().int().nonnegative().nullish()

/** What a client says on the socket of a command (contract 7.2). */
export const ClientFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('execute'),
    command: z.string(),
    command_id: ExecId.nullish(),
    timeout_seconds: z.number().nonnegative().nullish(),
    ...runFields,
    close_stdin: z.boolean().nullish(),
    kill_on_disconnect: z.boolean().nullish(),
    idle_timeout_seconds: seconds,
    ttl_seconds: seconds,
    pty: z.boolean().nullish(),
  }),
  z.object({ type: z.literal('reconnect'), command_id: ExecId, stdout_offset: offset, stderr_offset: offset }),
  z.object({ type: z.literal('input'), data: z.string() }),
  z.object({ type: z.literal('close_stdin') }),
  z.object({ type: z.literal('kill') }),
])
export type ClientFrame = z.infer<typeof ClientFrame>
/** With which a socket begins. */
export type Begin = Extract<ClientFrame, { type: 'execute' | 'reconnect' }>

export function readFrame(text: string): ClientFrame {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new BoxofficeError('INVALID_REQUEST', 'a frame must be valid JSON')
  }
  const parsed = ClientFrame.safeParse(value)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', `frame: ${describeIssues(parsed.error)}`)
  return parsed.data
}
