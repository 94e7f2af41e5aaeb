import { fromUnknown } from '@boxoffice/protocol'
import { z } from 'zod'
import type { Log } from '../../host/log.ts'
import type { BoxCaller } from './box-sessions.ts'
import { toBoxRefusal } from './errors.ts'
import type { BoxService } from './service.ts'

/**
 * Action RPC of the Box surface [2-40], over a WebSocket (one text message each) and over standard input and output (one line each):
 *
 *     request   {"seq_id": 1, "action": "box_exec", "data": {…}}
 *     response  {"seq_id": 1, "code": 0, "message": "ok", "data": {…}}
 *     refusal   {"seq_id": 1, "code": 1, "message": "…", "data": {"error": {"code", "message"}}}
 *
 * Requests are answered as they are done, so answers may overtake each other.
 */
const Request = z.object({
  seq_id: z.union([z.number(), z.string().max(128)]),
  action: z.string().max(128),
  data: z.record(z.string(), z.unknown()).nullish(),
})

export type RpcResponse = { seq_id: number | string | null; code: 0 | 1; message: string; data: unknown }

type Data = Record<string, unknown>
type Action = (box: BoxService, caller: BoxCaller, data: Data) => Promise<unknown>

const sessionOf = ({ session_id }: Data): string => (typeof session_id === 'string' ? session_id.trim() : '')
const processOf = ({ process_id }: Data): string => (typeof process_id === 'string' ? process_id : 'default')
const ended = (keys: readonly string[], data: Data): Data => Object.fromEntries(Object.entries(data).filter(([key]) => !keys.includes(key)))

const ACTIONS: Record<string, Action> = {
  box_init: (box, caller) => box.status(caller),
  box_health: (box) => box.health(),
  box_status: (box, caller) => box.status(caller),
  box_exec: (box, caller, data) => box.exec(caller, data),
  box_create_session: (box, caller, data) => box.createSession(caller, data),
  box_get_session: (box, caller, data) => box.getSession(caller, sessionOf(data)),
  box_get_sessions: async (box, caller) => ({ sessions: await box.listSessions(caller) }),
  box_delete_session: (box, caller, data) => box.deleteSession(caller, sessionOf(data)),
  box_start_managed_process: (box, caller, data) =>
    box.startProcess(caller, sessionOf(data), isRecord(data.spec) ? data.spec : ended(['session_id'], data)),
  box_get_managed_process: (box, caller, data) => box.getProcess(caller, sessionOf(data), processOf(data)),
  box_stop_managed_process: (box, caller, data) => box.stopProcess(caller, sessionOf(data), processOf(data)),
  box_get_backend_info: (box) => box.backend(),
  box_shutdown: (box, caller) => box.shutdown(caller),
}

/** Answers one message; never throws. */
export async function answerRpc(box: BoxService, caller: BoxCaller, text: string, log: Log): Promise<RpcResponse> {
  const parsed = Request.safeParse(jsonOf(text))
  if (!parsed.success)
    return refusal(null, 'validation_error', 'a message must be {"seq_id": number or string, "action": string, "data": object}')
  const { seq_id, action, data } = parsed.data
  const act = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined
  if (act === undefined) return refusal(seq_id, 'validation_error', `action: must be one of ${Object.keys(ACTIONS).join(', ')}`)
  try {
    const answer = await box.guard(
      caller,
      () => data,
      () => act(box, caller, data ?? {}),
    )
    return { seq_id, code: 0, message: 'ok', data: answer }
  } catch (thrown) {
    const { status, code, message } = toBoxRefusal(fromUnknown(thrown))
    if (status >= 500) log.warn({ action, code, err: thrown }, message)
    return refusal(seq_id, code, message)
  }
}

const refusal = (seq_id: RpcResponse['seq_id'], code: string, message: string): RpcResponse => ({
  seq_id,
  code: 1,
  message,
  data: { error: { code, message } },
})

const isRecord = (value: unknown): value is Data => typeof value === 'object' && value !== null && !Array.isArray(value)

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
