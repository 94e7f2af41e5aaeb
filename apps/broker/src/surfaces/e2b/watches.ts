import { posix } from 'node:path'
import { BoxofficeError, type FileChangeKind } from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { WatchSocket } from '../../dataplane/watch-socket.ts'
import { absoluteOf, filePath } from '../facade/paths.ts'
import { toConnectError } from './connect.ts'
import type { StreamCall } from './processes.ts'
import { unsupported } from './unsupported.ts'

export const WatchDirRequest = z.object({
  path: z.string().default(''),
  recursive: z.boolean().default(false),
  includeEntry: z.boolean().default(false),
})

const TYPES: Readonly<Record<FileChangeKind, string>> = {
  create: 'EVENT_TYPE_CREATE',
  write: 'EVENT_TYPE_WRITE',
  remove: 'EVENT_TYPE_REMOVE',
  rename: 'EVENT_TYPE_RENAME',
  chmod: 'EVENT_TYPE_CHMOD',
}

/** `WatchDir`: changes of a directory, as events by their names below it (contract 7.3). Lost changes end it with an error. */
export async function watchDir(
  dataplane: DataplaneClient,
  { opened: { session, actor }, timeoutMs, stream: begin }: StreamCall,
  { path, recursive, includeEntry }: z.infer<typeof WatchDirRequest>,
): Promise<void> {
  if (includeEntry) throw unsupported('includeEntry', 'ask for the entry of a change by getInfo')
  const directory = filePath(path)
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
    socket = await dataplane.session(session.id, actor).watch(
      { ...directory.query, recursive },
      {
        change({ change, path: changed }) {
          const name = posix.relative(directory.absolute, absoluteOf(directory, changed))
          stream.send({ filesystem: { name, type: TYPES[change] } })
        },
        overflow: () =>
          end(new BoxofficeError('QUOTA_EXCEEDED', 'changes are lost: there were too many at once; list the directory again')),
        closed: end,
      },
    )
  } catch (thrown) {
    clearTimeout(timer)
    throw thrown
  }
  if (stream.isEnded) socket.leave()
  else stream.send({ start: {} })
}
