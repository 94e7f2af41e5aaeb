import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { McpHost } from './host.ts'
import { McpServerError } from './phases.ts'

/** A host whose sandboxes hold servers of several brokers. */
export interface SharedHost extends McpHost {
  /** The server is another broker's to end: its files are not in its sandbox any more, which stays. */
  part(config: McpServerConfig): void
}

export type Leases = {
  /** Whether this broker may act on a server now. */
  holds(name: string): boolean
  /** Reads which servers there are, so that the host knows who lives in a sandbox before it makes or ends one. */
  refresh(): Promise<void>
}

/**
 * A host that acts on a server only while this broker has its lease: another broker may have it already, with the same process in the same
 * sandbox. A server whose lease is in doubt waits, as for a provider.
 */
export function leasedHost(host: McpHost, { holds, refresh }: Leases): McpHost {
  const requireLease = ({ name }: McpServerConfig, cause?: unknown): void => {
    if (holds(name)) return
    throw new McpServerError('session_create', 'another broker may run this server now', { reason: 'box_unavailable', cause })
  }
  return {
    join: (config) => host.join(config),
    async leave(config) {
      await refresh()
      requireLease(config)
      await host.leave(config)
    },
    async open(config, signal) {
      try {
        await refresh()
        requireLease(config)
        return await host.open(config, signal)
      } catch (thrown) {
        // While the database is away it is no failure of the server.
        requireLease(config, thrown)
        throw thrown
      }
    },
    async install(config, box, signal) {
      requireLease(config)
      return host.install(config, box, signal)
    },
    async start(config, box, signal) {
      requireLease(config)
      return host.start(config, box, signal)
    },
    async attach(config, box, handlers, signal) {
      requireLease(config)
      return host.attach(config, box, handlers, signal)
    },
    process: (config, box) => host.process(config, box),
    async stop(config, box) {
      requireLease(config)
      return host.stop(config, box)
    },
  }
}
