import type { McpServerConfig } from '../../../config/mcp-server.ts'
import type { SandboxOverrides } from '../../../domain/sandbox-overrides.ts'
import type { AgentRecord } from '../../../store/store.ts'
import { directoryOf, hostPathOf } from './placement.ts'

/** Ten years: a server runs until it is taken away. */
const FOR_EVER = 10 * 365 * 24 * 3600

/** What the provider has for a sandbox that is made now. */
export type Around = { isolation: string; network: boolean; egress: boolean; reserved?: AgentRecord['provider']['reserved'] }

/** Enough to install what a server depends on, and nothing of the networks around the host. */
const PROXIED: SandboxOverrides['profile'] = { network: 'proxy', egress: { allow: ['*'] } }

/** What is to be known of a server that does not have all that it would have elsewhere [2-94]. */
export const warningsOf = ({ box }: Pick<McpServerConfig, 'box'>, { network, egress, reserved }: Around): string[] => [
  ...(box.network === null && !network && !egress
    ? ['network: off, for the provider cannot grant it; what the server depends on is to be in its directory already']
    : []),
  ...(reserved === undefined ? [] : ['provider: local, for no engine answered; the engine has the server from its next start on']),
]

/**
 * What the sandbox of a server is to be like, with the files of everybody who lives there: what is mounted is decided when a
 * sandbox is made. Where nothing isolates, nothing can be mounted either.
 */
export function sandboxOf({ box }: McpServerConfig, inhabitants: Iterable<McpServerConfig>, around: Around): SandboxOverrides {
  const { image, cpus, memory_mb, pids_limit, network, read_only_rootfs } = box
  const limits = Object.fromEntries(Object.entries({ image, cpus, memory_mb, pids_limit }).filter(([, value]) => value !== null))
  return {
    profile: {
      ...limits,
      ...(network === null && around.egress ? PROXIED : { network: network ?? (around.network ? 'on' : 'off') }),
      read_only_rootfs: read_only_rootfs ?? false,
      // An image of its own may have code at `/app`.
      app_alias: image === null,
      hard_ttl_seconds: FOR_EVER,
      lease_seconds: FOR_EVER,
      idle_timeout_seconds: FOR_EVER,
    },
    mounts: around.isolation === 'none' ? [] : [...inhabitants].sort(byName).flatMap(mountOf),
  }
}

const mountOf = (server: McpServerConfig): NonNullable<SandboxOverrides['mounts']> => {
  const hostPath = hostPathOf(server)
  if (hostPath === null) return []
  // An administrator's: it need not be below the allowed roots [2-96].
  const mode = server.box.host_path_mode
  return [{ host_path: hostPath, mount_path: directoryOf(server.name), mode, skip_roots: true, optional: false }]
}

const byName = (one: McpServerConfig, other: McpServerConfig): number => (one.name < other.name ? -1 : 1)
