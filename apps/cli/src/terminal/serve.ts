import type { ReadyLine } from './ready.ts'

/** A part that runs until it is closed; `fail` ends the program with what made it useless. */
export type Starting = (stack: AsyncDisposableStack, fail: (error: Error) => void) => Promise<ReadyLine>

export type ServeOptions = {
  /** Ends as on SIGTERM when stdin does: with the program that holds its other end, however that ends. */
  untilStdinEnds?: boolean | undefined
  /** What a person is told on stderr when the end begins. */
  farewell?: string | undefined
}

/**
 * Starts what `start` puts on the stack, tells that it is ready, and waits for SIGTERM or SIGINT. Then everything is closed
 * in reverse order, and the program ends with 0. A second signal, a moment later, ends it at once. What was started is closed too when
 * starting the rest fails, or a part does later.
 */
export const serve = async (start: Starting, announce: (ready: ReadyLine) => void, options: ServeOptions = {}): Promise<never> => {
  const stop = options.untilStdinEnds ? Promise.race([stopSignal(), endOfStdin()]) : stopSignal()
  {
    await using stack = new AsyncDisposableStack()
    const failed = Promise.withResolvers<never>()
    failed.promise.catch(() => {})
    const ready = await start(stack, failed.reject)
    announce(ready)
    await Promise.race([stop, failed.promise])
    if (options.farewell !== undefined) process.stderr.write(`${options.farewell}\n`)
  }
  process.exit(0)
}

/**
 * What SIGHUP asks for, as long as the parts on the stack run. Not in a terminal: there it means that the window was closed, and ends
 * the program.
 */
export const onHangup = (stack: AsyncDisposableStack, act: () => void): void => {
  if (process.stdin.isTTY) return
  process.on('SIGHUP', act)
  stack.defer(() => void process.off('SIGHUP', act))
}

const endOfStdin = (): Promise<void> =>
  new Promise((resolve) => {
    process.stdin.once('close', resolve).on('error', () => {})
    process.stdin.resume()
  })

const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const

/** What reaches us twice within this time is one wish: a terminal tells all of its programs, and npm passes on what it was told. */
const SAME_STOP_MS = 1000

const stopSignal = (): Promise<void> =>
  new Promise((resolve) => {
    let since: number | undefined
    for (const [signal, number] of Object.entries(NUMBERS)) {
      process.on(signal, () => {
        if (since !== undefined && performance.now() - since > SAME_STOP_MS) process.exit(128 + number)
        since ??= performance.now()
        resolve()
      })
    }
  })
