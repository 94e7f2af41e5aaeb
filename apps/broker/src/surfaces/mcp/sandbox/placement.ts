import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import type { McpServerConfig } from '../../../config/mcp-server.ts'
import { inferHostPath } from './host-path.ts'

/** What makes two servers of a pipeline need sandboxes of their own. */
const APART = ['image', 'network', 'cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs'] as const

/** In which sandbox a server runs, and when it is started there. */
export type ServerPlace = { sessionId: string; startsAt: 'boot' }

/**
 * The one place that decides where and when a server runs [0-47]: for now with its pipeline, at the start of the broker. Those
 * whose image or limits are not the ordinary ones have a sandbox with others like them [0-41].
 */
export function placeOf({ pipeline_uuid, box }: Pick<McpServerConfig, 'pipeline_uuid' | 'box'>): ServerPlace {
  const own = APART.map((field) => [field, box[field]] as const).filter(([field, value]) => value !== ORDINARY[field])
  const shared = `mcp-pipeline-${pipeline_uuid}`
  if (own.length === 0) return { sessionId: shared, startsAt: 'boot' }
  const digest = createHash('sha256').update(JSON.stringify(own)).digest('hex').slice(0, 12)
  return { sessionId: `${shared}-${digest}`, startsAt: 'boot' }
}

const ORDINARY: Readonly<Record<(typeof APART)[number], unknown>> = {
  image: null,
  network: null,
  cpus: null,
  memory_mb: null,
  pids_limit: null,
  read_only_rootfs: null,
}

const ROOT = '/workspace/.mcp'

/** A server's own directory in the sandbox, where it runs [0-43] and where its files are shown. */
export const directoryOf = (name: string): string => posix.join(ROOT, name)

/** The directory of the host with the server's files; null when it has none, or is to see none. */
export const hostPathOf = ({ command, args, box }: Pick<McpServerConfig, 'command' | 'args' | 'box'>): string | null =>
  box.host_path_mode === 'none' ? null : (box.host_path ?? inferHostPath({ command, args }))
