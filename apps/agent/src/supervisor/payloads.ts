import { FileChangeKind, KILL_CAUSES } from '@boxoffice/protocol'
import { z } from 'zod'

/** What the supervisor sends as JSON, checked before anything believes it (WIRE.md). */
const bytes = z.number().int().nonnegative()
const id = z.string().max(64)

export const Exit = z.object({
  id,
  code: z.number().int().nullable(),
  signal: z.string().max(32).nullable(),
  reason: z.enum(['exited', 'signaled', 'timed_out', 'oom_killed', 'killed', 'spawn_failed']),
  cause: z.enum(KILL_CAUSES).nullable().catch(null),
  spawn_error: z.object({ kind: z.string().max(64), errno: z.string().max(32).nullable(), message: z.string().max(4096) }).nullable(),
  duration_ms: z.number().nonnegative(),
  stdout_bytes: bytes,
  stderr_bytes: bytes,
  oom: z.boolean(),
})

const Start = z.object({ offset: bytes, oldest: bytes, end: bytes })
export const Ready = z.object({
  id,
  pid: z.number().int(),
  attached: z.boolean(),
  stdout: Start,
  stderr: Start,
  stdin_offset: bytes,
  ended: z.boolean(),
  pty: z.object({ cols: z.number().int(), rows: z.number().int() }).nullish(),
})
export type Ready = z.infer<typeof Ready>

/** One record of `list` and `get`. */
export const ProcessRecord = z.object({
  id,
  fingerprint: z.string().max(128),
  meta: z.string().max(4096).optional(),
  pid: z.number().int().nullish(),
  state: z.enum(['running', 'ended']),
  pty: z.unknown(),
  detach: z.boolean(),
  started_ms: z.number(),
  ended_ms: z.number().nullish(),
  exit: Exit.nullish(),
  readers: z.number().int(),
})
export type ProcessRecord = z.infer<typeof ProcessRecord>
export const ProcessList = z.object({ processes: z.array(ProcessRecord) })

export const OutputPage = z.object({ offset: bytes, next: bytes, oldest: bytes, end: bytes, eof: z.boolean(), data: z.string() })
export type OutputPage = z.infer<typeof OutputPage>

/** `ready` of a `dial`. */
export const Dialled = z.object({ host: z.string().max(64) })
export const PortList = z.object({ ports: z.array(z.number().int().min(1).max(65535)).max(1024) })

export const FileStat = z.object({
  path: z.string(),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: bytes,
  mtime_ms: z.number(),
  mode: z.number().int().nonnegative(),
  etag: z.string().max(128),
  /** Where a link points, for `follow: false`. */
  target: z.string().nullish(),
})
export type FileStat = z.infer<typeof FileStat>

/** One NDJSON line of `watch`. */
export const WatchLine = z.union([z.object({ e: FileChangeKind, p: z.string(), d: z.boolean() }), z.object({ e: z.literal('overflow') })])
export type WatchLine = z.infer<typeof WatchLine>

/** One NDJSON line of `list`. */
export const ListLine = z.object({
  p: z.string(),
  t: z.enum(['f', 'd', 'l', 'o']),
  s: bytes,
  m: z.number(),
  o: z.number().int().nonnegative(),
})
