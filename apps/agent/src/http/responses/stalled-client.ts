import type { ServerResponse } from 'node:http'

/** How long a client may take no byte of a response, and of a download [4-134]; and send none of an upload. */
export const ANSWER_STALL_MS = 30_000
export const DOWNLOAD_STALL_MS = 120_000
export const UPLOAD_STALL_MS = 120_000

/** Cuts the client's connection when it takes no byte for that long although there are some; begins with the body of a response. */
export const cutStalledClient = (outgoing: ServerResponse, withinMs: number): void => {
  // Node counts what the kernel takes of a write as activity, so a slow client goes on.
  outgoing.setTimeout(withinMs, () => {
    if (outgoing.writableLength > 0) outgoing.destroy()
    else outgoing.setTimeout(withinMs)
  })
}
