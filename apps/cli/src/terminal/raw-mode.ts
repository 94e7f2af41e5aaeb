import type { ReadStream } from 'node:tty'

/** Hands every key on as it is typed. The terminal is put back by the returned function and, whatever happens, when the program ends. */
export const enterRawMode = (input: ReadStream): (() => void) => {
  if (!input.isTTY) return () => {}
  const restore = () => {
    if (input.isRaw) input.setRawMode(false)
    process.removeListener('exit', restore)
  }
  process.on('exit', restore)
  input.setRawMode(true)
  return restore
}
