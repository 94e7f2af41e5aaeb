import { isFast } from '@boxoffice/node-http'

/** Each takes a channel of the sandbox. */
const AHEAD = 4

/**
 * The items in their order, each with what `read` began for it: a few items ahead, because each takes a round trip. The plain way
 * begins with an item when its turn has come. A reading that fails rejects where it is awaited; one that nobody awaits is dropped.
 */
export function* readAhead<T extends object, R>(
  items: Iterable<T>,
  read: (item: T) => Promise<R> | undefined,
): Generator<T & { ahead: Promise<R> | undefined }> {
  const most = isFast('readAhead') ? AHEAD : 0
  const window: (T & { ahead: Promise<R> | undefined })[] = []
  for (const item of items) {
    const ahead = read(item)
    // An archive that fails leaves some behind that nobody waits for.
    ahead?.catch(() => {})
    window.push({ ...item, ahead })
    const first = window.length > most ? window.shift() : undefined
    if (first !== undefined) yield first
  }
  yield* window
}
