import { z } from 'zod'
import { AuthFrame, AuthOkFrame, ErrorFrame, PingFrame, PongFrame } from './frames.ts'

/**
 * Frames of `WS W/files/watch?path=&recursive=&root=`: text messages, one watch of one directory per socket. It opens only for a
 * credential in the headers or the subprotocols, and only where the directory can be watched; else the upgrade is refused.
 *
 * Order: `ready → (change | overflow)* → end | error → close`. The client may send `auth` (a renewed token) and `ping` at any time.
 * Paths are as in `GET D/files`. What is changed in a directory that has just appeared may be told twice, never not at all.
 */
export const WATCH_LIMITS = {
  /** Open at once in one sandbox. */
  watches: 8,
  /** Watched in one sandbox by all of them. */
  directories: 8192,
} as const

/**
 * `create`: a name has appeared, made or moved there. `write`: a file's content was changed. `remove`: it was deleted. `rename`: it has
 * moved away; where it is now comes as `create`, if that is watched. `chmod`: its mode, owner or times have changed. An upload comes as
 * `create` and `write`, also where it replaces a file.
 */
export const FileChangeKind = z.enum(['create', 'write', 'remove', 'rename', 'chmod'])
export type FileChangeKind = z.infer<typeof FileChangeKind>

/** `path`: the directory as it was understood; changes from now on are told. */
export const WatchReadyFrame = z.object({ type: z.literal('ready'), path: z.string(), recursive: z.boolean() })
export const WatchChangeFrame = z.object({
  type: z.literal('change'),
  change: FileChangeKind,
  path: z.string(),
  directory: z.boolean(),
})
export const WatchServerFrame = z.discriminatedUnion('type', [
  WatchReadyFrame,
  WatchChangeFrame,
  /** Changes are lost: there were more than the client, or the kernel, could take. List the directory again. */
  z.object({ type: z.literal('overflow') }),
  /** The directory was removed or moved. */
  z.object({ type: z.literal('end'), reason: z.literal('removed') }),
  AuthOkFrame,
  PongFrame,
  ErrorFrame,
])
export type WatchServerFrame = z.infer<typeof WatchServerFrame>
export const WatchClientFrame = z.discriminatedUnion('type', [AuthFrame, PingFrame])
export type WatchClientFrame = z.infer<typeof WatchClientFrame>
