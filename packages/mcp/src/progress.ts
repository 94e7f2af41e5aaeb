import type { ServerContext } from '@modelcontextprotocol/server'

/** Milliseconds between two words on a call that goes on. */
const EVERY_MS = 1000

/** Says that the work goes on, each second, to callers that ask for progress; they wait longer then. */
export const withProgress = async <T>(name: string, { mcpReq }: ServerContext, work: () => Promise<T>): Promise<T> => {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return await work()
  const started = performance.now()
  const timer = setInterval(() => {
    const progress = Math.round((performance.now() - started) / 1000)
    const params = { progressToken, progress, message: `${name} runs for ${progress} s` }
    // A caller that has gone needs no word.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
  }, EVERY_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
