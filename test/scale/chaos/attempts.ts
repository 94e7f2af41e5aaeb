import { setTimeout as delay } from 'node:timers/promises'
import { backoffMs } from '../../../packages/client/src/network/backoff.ts'
import type { Reply } from '../../e2e/support/api.ts'
import type { Kills } from './disturbances.ts'

/** How often requests were repeated: the n-th number is of those that needed n repetitions. */
export type Repetitions = number[]

export type AttemptsReport = {
  repetitions: Repetitions
  /** What made requests be repeated, with how often it did. */
  causes: Map<string, number>
  /** Answers that no client may get. */
  wrong: string[]
  /** Requests that were repeated more often than brokers were killed while they were under way, and more than once. */
  tooOften: string[]
}

/** How long a request is tried: a database that is away stays so for a while. */
const TRIED_MS = 120_000

/**
 * Sends a request, and repeats it by the rules of the SDK: after a connection that failed with its backoff, after a refusal that may be
 * repeated (503, or 423 while a sandbox starts) as `Retry-After` says. Each 503 must have its code and that header. `kills`: those so
 * far; the request meets those that end after it begins.
 */
export const attempt = async (
  what: string,
  { report, kills }: { report: AttemptsReport; kills: Readonly<Kills> },
  send: () => Promise<Reply>,
): Promise<Reply & { repeated: number }> => {
  const end = performance.now() + TRIED_MS
  const before = kills.ended
  for (let repeated = 0; ; repeated++) {
    const reply = await send().catch((thrown: unknown) => causeOf(thrown))
    if (typeof reply !== 'string' && reply.status !== 503 && reply.status !== 423) {
      report.repetitions[repeated] = (report.repetitions[repeated] ?? 0) + 1
      const met = kills.begun - before
      if (repeated > Math.max(1, met)) report.tooOften.push(`${what}: repeated ${repeated} times, while ${met} brokers were killed`)
      return { ...reply, repeated }
    }
    const cause = typeof reply === 'string' ? reply : `${reply.status} ${errorOf(reply).code ?? 'without a code'}`
    report.causes.set(cause, (report.causes.get(cause) ?? 0) + 1)
    const seconds = typeof reply === 'string' ? undefined : reply.headers.get('retry-after')
    if (typeof reply !== 'string' && (seconds === null || !errorOf(reply).aliases?.some((name) => RETRYABLE.has(name))))
      report.wrong.push(`${what}: ${reply.status}, Retry-After ${seconds}: ${reply.text.slice(0, 300)}`)
    if (performance.now() > end) throw new Error(`${what}: not answered in ${TRIED_MS / 1000} s; last ${cause}`)
    await delay(seconds ? Number(seconds) * 1000 : backoffMs(repeated))
  }
}

const RETRYABLE = new Set(['BACKEND_UNAVAILABLE', 'SANDBOX_STARTING'])

const errorOf = ({ body }: Reply): { code?: string; aliases?: string[] } =>
  (body as { error?: { code?: string; aliases?: string[] } } | undefined)?.error ?? {}

const causeOf = (thrown: unknown): string => {
  const { message, cause } = thrown as Error & { cause?: { code?: string; message?: string } }
  return cause?.code ?? cause?.message ?? message
}
