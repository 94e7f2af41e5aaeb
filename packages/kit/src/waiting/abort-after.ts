/** setTimeout takes no more. */
const MOST_MS = 2 ** 31 - 1

/**
 * A signal that is aborted `ms` milliseconds from now, unless it is disposed of before. That of `AbortSignal.timeout` makes an error with a
 * stack when its time comes, also where what it was for is long done. Its timer keeps no process alive.
 */
export function abortAfter(ms: number): Disposable & { signal: AbortSignal } {
  const controller = new AbortController()
  const late = (): void => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  const timer = setTimeout(late, Math.min(ms, MOST_MS)).unref()
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) }
}
