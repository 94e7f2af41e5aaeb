import { posix } from 'node:path'
import { BoxofficeError, type FileChangeKind } from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneClient } from '../../../dataplane/client.ts'
import type { WatchSocket } from '../../../dataplane/watch-socket.ts'
import { absoluteOf, filePath } from '../../facade/paths.ts'
import type { Opened } from '../call/access-tokens.ts'
import { toConnectError } from '../call/connect.ts'
import type { StreamCall } from '../call/stream-call.ts'
import { unsupported } from '../call/unsupported.ts'

/** What `WatchDir` and `CreateWatcher` ask for. */
export const WatchRequest = z.object({
  path: z.string().default(''),
  recursive: z.boolean().default(false),
  includeEntry: z.boolean().default(false),
})
export type WatchRequest = z.infer<typeof WatchRequest>

/** A change of a watched directory; `name` is relative to it. */
export type WatchEvent = { name: string; type: string }

export type WatchEventHandlers = {
  event(event: WatchEvent): void
  /** Once, last. Without an error the directory is gone. QUOTA_EXCEEDED: changes are lost. Not called after `leave`. */
  ended(error?: BoxofficeError): void
}

const TYPES: Readonly<Record<FileChangeKind, string>> = {
  create: 'EVENT_TYPE_CREATE',
  write: 'EVENT_TYPE_WRITE',
  remove: 'EVENT_TYPE_REMOVE',
  rename: 'EVENT_TYPE_RENAME',
  chmod: 'EVENT_TYPE_CHMOD',
}

export const changesLost = (): BoxofficeError =>
  new BoxofficeError('QUOTA_EXCEEDED', 'changes are lost: there were too many at once; list the directory again')

/** Watches a directory for the holder of a token. Resolves once changes are told; rejects with the agent's refusal. */
export function openWatch(
  dataplane: DataplaneClient,
  { session, actor }: Opened,
  { path, recursive, includeEntry }: WatchRequest,
  handlers: WatchEventHandlers,
): Promise<WatchSocket> {
  if (includeEntry) throw unsupported('includeEntry', 'ask for the entry of a change by getInfo')
  const directory = filePath(path)
  return dataplane.session(session.id, actor).watch(
    { ...directory.query, recursive },
    {
      change({ change, path: changed }) {
        handlers.event({ name: posix.relative(directory.absolute, absoluteOf(directory, changed)), type: TYPES[change] })
      },
      overflow: () => handlers.ended(changesLost()),
      closed: (error) => handlers.ended(error),
    },
  )
}

/** `WatchDir`: changes of a directory, as events by their names below it (contract 7.3). Lost changes end it with an error. */
export async function watchDir(
  dataplane: DataplaneClient,
  { opened, timeoutMs, stream: begin }: StreamCall,
  request: WatchRequest,
): Promise<void> {
  let socket: WatchSocket | undefined
  const left = (): void => {
    clearTimeout(timer)
    socket?.leave()
  }
  const stream = begin({ full: () => socket?.pause(), drained: () => socket?.resume(), left })
  const end = (error?: BoxofficeError): void => {
    stream.end(error === undefined ? {} : { error: toConnectError(error) })
    left()
  }
  const late = new BoxofficeError('TIMEOUT', 'the time limit of the watch has passed')
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => end(late), timeoutMs)
  try {
    socket = await openWatch(dataplane, opened, request, { event: (event) => stream.send({ filesystem: event }), ended: end })
  } catch (thrown) {
    clearTimeout(timer)
    throw thrown
  }
  if (stream.isEnded) socket.leave()
  else stream.send({ start: {} })
}
