/** A step as it is run: `code` and `cmd` have been taken out of the payload. */
export type Step = { type: 'bash'; cmd: string } | { type: 'python'; code: string }

/** What is wrong with one field, in the words of the framework that this surface was written with; clients read them. */
export type StepDetail = { type: string; loc: (string | number)[]; msg: string; input: unknown; ctx?: Record<string, unknown> }

export type ReadStep = { step: Step } | { detail: StepDetail[] }

/** What callers see when a step names another sandbox than its URL [C-70]. */
const MISMATCH = 'sandbox_id must be equal to the session_id of the URL'

/** Reads a step for the session of the URL: every field is looked at, so that one response tells all that is wrong [3-05..3-08]. */
export function readStep(body: unknown, sessionId: string): ReadStep {
  if (!isRecord(body))
    return {
      detail: [detail('model_attributes_type', ['body'], 'Input should be a valid dictionary or object to extract fields from', body)],
    }
  const payload = readPayload(body)
  const found = [...sandboxId(body, sessionId), ...typeOf(body), ...payload.detail]
  return found.length === 0 && payload.step !== undefined ? { step: payload.step } : { detail: found }
}

/** Of a body that is no JSON. */
export const notJson = (error: string): StepDetail => ({
  ...detail('json_invalid', ['body', 0], 'JSON decode error', {}),
  ctx: { error },
})

const TEXTS = { bash: 'cmd', python: 'code' } as const

const sandboxId = (body: Record<string, unknown>, sessionId: string): StepDetail[] => {
  const value = body.sandbox_id
  const wrong = textDetail(body, 'sandbox_id', ['body'])
  if (wrong !== undefined) return [wrong]
  return value === sessionId ? [] : [detail('value_error', ['body', 'sandbox_id'], MISMATCH, value)]
}

const typeOf = (body: Record<string, unknown>): StepDetail[] => {
  const expected = "'bash' or 'python'"
  if (!('type' in body)) return [missing(body, 'type', ['body'])]
  if (isType(body.type)) return []
  return [{ ...detail('literal_error', ['body', 'type'], `Input should be ${expected}`, body.type), ctx: { expected } }]
}

const readPayload = (body: Record<string, unknown>): { step?: Step; detail: StepDetail[] } => {
  const { type, payload } = body
  if (!('payload' in body)) return { detail: [missing(body, 'payload', ['body'])] }
  if (!isRecord(payload)) return { detail: [detail('dict_type', ['body', 'payload'], 'Input should be a valid dictionary', payload)] }
  // Which field it needs follows from the type.
  if (!isType(type)) return { detail: [] }
  const wrong = textDetail(payload, TEXTS[type], ['body', 'payload'])
  if (wrong !== undefined) return { detail: [wrong] }
  const text = payload[TEXTS[type]] as string
  return { step: type === 'bash' ? { type, cmd: text } : { type, code: text }, detail: [] }
}

const textDetail = (record: Record<string, unknown>, name: string, loc: string[]): StepDetail | undefined => {
  const value = record[name]
  if (!(name in record)) return missing(record, name, loc)
  if (typeof value !== 'string') return detail('string_type', [...loc, name], 'Input should be a valid string', value)
  // No program can be given one.
  if (value.includes('\0')) return detail('value_error', [...loc, name], 'Value error, must not contain NUL', value)
  return undefined
}

const missing = (input: unknown, name: string, loc: string[]): StepDetail => detail('missing', [...loc, name], 'Field required', input)
const detail = (type: string, loc: (string | number)[], msg: string, input: unknown): StepDetail => ({ type, loc, msg, input })

const isType = (value: unknown): value is Step['type'] => value === 'bash' || value === 'python'
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
