import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, EXEC_ID_PATTERN, type ExecStateResponse } from '@boxoffice/protocol'
import type { Call } from '../http/call.ts'
import { sendJson, sendNothing } from '../http/responses/respond.ts'
import type { Route } from '../http/router.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorLink } from '../supervisor/link.ts'
import { ProcessRecord } from '../supervisor/payloads.ts'

type ExecState = ExecStateResponse['state']

/** The response is out within a second, with what is left of it for the way. */
const STATE_WITHIN_MS = 800
/** Questions that one sandbox may owe a response to: one that is frozen owes it until it wakes, and each takes memory here. */
const MAX_OPEN_QUESTIONS = 64

/** For any valid token, also one whose sandbox is not here: it asks whether the way to this agent is open. */
export const answerPing = ({ outgoing }: Pick<Call, 'outgoing'>): void => sendNothing(outgoing, 204)

/** Never waits for a sandbox that sleeps or stands still: its execs are `unknown`, and it is not woken. */
const getState = async ({ sandbox, outgoing, id }: Call): Promise<void> => {
  const state = await withTimeout(stateOf(sandbox, id), STATE_WITHIN_MS, () => 'unknown' as const)
  sendJson(outgoing, 200, { exec_id: id, state } satisfies ExecStateResponse)
}

/** What is asked and not answered yet, by link and exec. */
const questions = new WeakMap<SupervisorLink, Map<string, Promise<ExecState>>>()

const stateOf = async (sandbox: Sandbox, id: string): Promise<ExecState> => {
  // Ids of managed processes are none that a client can give an exec.
  if (!EXEC_ID_PATTERN.test(id)) return 'missing'
  try {
    const { link } = sandbox
    const open = questions.get(link) ?? new Map<string, Promise<ExecState>>()
    questions.set(link, open)
    const asked = open.get(id)
    if (asked !== undefined) return await asked
    if (open.size >= MAX_OPEN_QUESTIONS) return 'unknown'
    const answer = ask(link, id).finally(() => open.delete(id))
    open.set(id, answer)
    return await answer
  } catch {
    return 'unknown' // a sandbox that is stopped has no link
  }
}

const ask = async (link: SupervisorLink, id: string): Promise<ExecState> => {
  try {
    const record = ProcessRecord.parse(await link.call('get', { id }))
    return record.state === 'running' ? 'running' : 'exited'
  } catch (error) {
    return error instanceof BoxofficeError && error.code === 'EXEC_NOT_FOUND' ? 'missing' : 'unknown'
  }
}

/** What a client asks by another connection when the one it uses has gone silent. */
export const livenessRoutes: readonly Route[] = [
  { method: 'GET', path: 'ping', requires: null, handler: answerPing, quiet: true },
  { method: 'GET', path: 'execs/:id/state', requires: 'exec', handler: getState, quiet: true },
]
