import type { Exit } from '../base/exec-result.ts'
import type { Attachment } from '../stream/attachment.ts'
import type { Inbox } from '../stream/inbox.ts'

export type OutputCallbacks = {
  /**
   * Called with stdout as it comes, as whole UTF-8 characters. Reading waits for a promise that it gives, and so does the process. With
   * a callback `exit` comes after the last piece. A stream without one is dropped then, and `run.stdout` and `run.stderr` have no
   * second reader.
   */
  onStdout?: ((text: string) => void | Promise<void>) | undefined
  /** The same of stderr. */
  onStderr?: ((text: string) => void | Promise<void>) | undefined
}

/** The end of the process, after its output has been given to the callbacks. Rejects with what a callback throws; the process goes on. */
export const deliver = ({ stdout, stderr, exit }: Attachment, { onStdout, onStderr }: OutputCallbacks): Promise<Exit> => {
  if (onStdout === undefined && onStderr === undefined) return exit
  const delivered = Promise.all([exit, give(stdout, onStdout), give(stderr, onStderr)]).then(([ended]) => ended)
  // A caller who never looks at the exit must not bring the program down.
  delivered.catch(() => {})
  return delivered
}

const give = async (inbox: Inbox, callback: OutputCallbacks['onStdout']): Promise<void> => {
  if (callback === undefined) return discard(inbox)
  const decoder = new TextDecoder()
  try {
    for await (const bytes of inbox) {
      const text = decoder.decode(bytes, { stream: true })
      if (text !== '') await callback(text)
    }
    const rest = decoder.decode()
    if (rest !== '') await callback(rest)
  } catch (error) {
    discard(inbox)
    throw error
  }
}

/** Reads a stream for nobody, so that it does not hold the process up. How it ends is told by `exit`. */
export const discard = (inbox: Inbox): void => {
  inbox.drain().catch(() => {})
}
