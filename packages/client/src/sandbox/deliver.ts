import type { Exit } from '../base/exec-result.ts'
import type { Attachment } from '../stream/attachment.ts'
import { drain } from '../stream/drain.ts'
import type { Inbox } from '../stream/inbox.ts'

export type OutputCallbacks = {
  /**
   * Called with stdout as it comes, as whole UTF-8 characters: each byte once and in order, over dropped connections. Reading waits for
   * a promise that it gives, and so does the process. The end of the command is told after the last piece.
   */
  onStdout?: ((text: string) => void | Promise<void>) | undefined
  /** The same of stderr. */
  onStderr?: ((text: string) => void | Promise<void>) | undefined
}

/**
 * The end of the process, after its output has been given to the callbacks. A stream without one is dropped, once the other one has a
 * callback. Rejects with what a callback throws; the process goes on.
 */
export const deliver = ({ stdout, stderr, exit }: Attachment, { onStdout, onStderr }: OutputCallbacks): Promise<Exit> => {
  if (onStdout === undefined && onStderr === undefined) return exit
  const delivered = Promise.all([exit, give(stdout, onStdout), give(stderr, onStderr)]).then(([ended]) => ended)
  // A caller who never looks at the exit must not bring the program down.
  delivered.catch(() => {})
  return delivered
}

const give = async (inbox: Inbox, callback: OutputCallbacks['onStdout']): Promise<void> => {
  if (callback === undefined) return discard(inbox)
  try {
    await decoded(inbox, callback)
  } catch (error) {
    discard(inbox)
    throw error
  }
}

/** Gives the text of a stream to its end, one piece after the other. Rejects with what the callback throws. */
export const decoded = async (bytes: AsyncIterable<Uint8Array>, callback: (text: string) => void | Promise<void>): Promise<void> => {
  // A byte order mark is output like any other.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  for await (const piece of bytes) {
    const text = decoder.decode(piece, { stream: true })
    if (text !== '') await callback(text)
  }
  const rest = decoder.decode()
  if (rest !== '') await callback(rest)
}

/** Reads a stream for nobody, so that it does not hold the process up. How it ends is told by `exit`. */
export const discard = (output: AsyncIterable<Uint8Array>): void => {
  drain(output).catch(() => {})
}
