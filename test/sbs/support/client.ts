import { readdirSync, readFileSync } from 'node:fs'

export type StepResult = { output: string; error: string; exit_code: number }
export type Answer = { status: number; text: string; body: unknown; headers: Headers }

/** The surface as plain HTTP, with nothing in between. */
export const sbsClient = (url: string, headers: Record<string, string> = {}) => {
  const call = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<Answer> => {
    const json: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const payload = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const response = await fetch(url + path, { method, headers: { ...json, ...headers, ...more }, ...payload })
    const text = await response.text()
    return { status: response.status, text, headers: response.headers, body: parsed(text) }
  }
  const create = async (): Promise<string> => {
    const { status, body, text } = await call('POST', '/sessions')
    if (status !== 200) throw new Error(`${status} ${text}`)
    return (body as { session_id: string }).session_id
  }
  const post = (id: string, body: unknown) => call('POST', `/sessions/${id}/step`, body)
  const run = async (id: string, type: string, payload: unknown): Promise<StepResult> => {
    const { status, body, text } = await post(id, { sandbox_id: id, type, payload })
    if (status !== 200) throw new Error(`${status} ${text}`)
    return body as StepResult
  }
  return {
    call,
    create,
    post,
    bash: (id: string, cmd: string) => run(id, 'bash', { cmd }),
    python: (id: string, code: string) => run(id, 'python', { code }),
    close: (id: string) => call('DELETE', `/sessions/${id}`),
  }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Processes of this machine that live and have `text` in their command line or environment. */
export const processesWith = (text: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const read = (file: string): string => {
        try {
          return readFileSync(`/proc/${pid}/${file}`, 'latin1')
        } catch {
          return ''
        }
      }
      return pid !== process.pid && (read('cmdline').includes(text) || read('environ').includes(text))
    })

let last = 1000

/** An argument for `sleep` that no other process has, of half a minute and more. */
export const longTime = (): string => `60.${process.pid}${last++}`
