/** One event as it came; `id` is 0 for those without. */
export type ReadEvent = { id: number; type: string; data: Record<string, unknown> }

/** A plain reader of server-sent events: what is asserted about the stream must not pass through our own client. */
export type EventReader = Awaited<ReturnType<typeof readEvents>>

export async function readEvents(url: string, apiKey: string, sessionId: string, headers: Record<string, string> = {}) {
  const aborter = new AbortController()
  const response = await fetch(`${url}/v1/sandbox/sessions/${sessionId}/events`, {
    headers: { authorization: `Bearer ${apiKey}`, ...headers },
    signal: aborter.signal,
  })
  const events: ReadEvent[] = []
  const comments: string[] = []
  let waiters: { test: () => boolean; resolve: () => void; reject: (reason: Error) => void }[] = []
  let over = false
  const notify = () => {
    waiters = waiters.filter(({ test, resolve, reject }) => {
      if (test()) resolve()
      else if (over) reject(new Error(`the stream ended after ${JSON.stringify(events.slice(-3))}`))
      else return true
      return false
    })
  }
  const onBlock = (block: string) => {
    const fields = new Map(block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
    if (block.startsWith(':')) comments.push(block.slice(2))
    const data = fields.get('data')
    if (data !== undefined) events.push({ id: Number(fields.get('id') ?? 0), type: fields.get('event') ?? '', data: JSON.parse(data) })
    notify()
  }
  /** How it ended: by the server's own end, or cut. */
  const ended = (async () => {
    let rest = ''
    try {
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const blocks = (rest + chunk).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) onBlock(block)
      }
      return 'ended'
    } catch {
      return 'cut'
    } finally {
      over = true
      notify()
    }
  })()
  return {
    status: response.status,
    headers: response.headers,
    events,
    comments,
    ended,
    /** Resolves when `test` holds for what has come. */
    until: (test: () => boolean) =>
      new Promise<void>((resolve, reject) => {
        waiters.push({ test, resolve, reject })
        notify()
      }),
    types: () => events.map(({ type, data }) => (type === 'state' ? `state ${data.state}` : type)),
    lastId: () => events.findLast(({ id }) => id > 0)?.id ?? 0,
    close: async () => {
      aborter.abort()
      await ended
    },
  }
}
