/**
 * Who may import whom: the one table, read by `check-layers.ts`, which `npm run check` runs.
 *
 * `tiers` are the folders of a source tree from the ground up. A file imports its own folder and folders of lower tiers, so no two
 * folders import each other; `.` is the tree itself. `MODULES` names the outside packages that only some places may import; every
 * other one may be imported anywhere.
 */
export type Tree = {
  root: string
  tiers: readonly (readonly string[])[]
  /** Those of the workspace that it may import. */
  packages: readonly string[]
  /** Folders and files that run in browsers and workers, so that they import nothing of Node. */
  portable?: readonly string[]
}

export const TREES: readonly Tree[] = [
  {
    root: 'apps/broker/src',
    packages: ['@boxoffice/kit', '@boxoffice/mcp', '@boxoffice/protocol', '@boxoffice/node-http'],
    tiers: [
      ['domain', 'host', 'outbound'],
      ['access/jwt', 'config', 'store'],
      ['access', 'events', 'secrets', 'store/postgres/engine', 'store/rows', 'store/sqlite/engine', 'tokens'],
      ['agents', 'store/postgres/events', 'store/postgres/tables', 'store/sqlite/tables'],
      ['relay/http1', 'sessions', 'store/postgres/sessions', 'store/sqlite/sessions'],
      ['http', 'previews', 'registration', 'relay/ws', 'store/copy', 'store/postgres', 'store/sqlite'],
      ['dataplane', 'relay', 'surfaces/documentation', 'surfaces/mcp/peers', 'surfaces/mcp/sandbox', 'surfaces/v1/sandbox', 'upkeep'],
      ['surfaces/e2b/call', 'surfaces/facade'],
      ['surfaces/e2b/control', 'surfaces/e2b/filesystem', 'surfaces/e2b/process', 'surfaces/langsmith/commands'],
      [
        'surfaces/box',
        'surfaces/e2b',
        'surfaces/langsmith',
        'surfaces/mcp',
        'surfaces/mcp-tools',
        'surfaces/n8n',
        'surfaces/sbs',
        'surfaces/v1',
      ],
      ['surfaces'],
      ['.'],
    ],
  },
  {
    root: 'apps/agent/src',
    packages: ['@boxoffice/kit', '@boxoffice/protocol', '@boxoffice/node-http'],
    tiers: [
      ['fast-io'],
      ['data-dir', 'egress', 'egress/secrets', 'host', 'supervisor'],
      ['capacity', 'egress/address', 'sandbox'],
      ['auth', 'egress/http', 'egress/policy', 'exec', 'files', 'mounts', 'providers/docker', 'providers/kubernetes'],
      ['broker-link', 'egress/mirrors', 'egress/proxy', 'egress/tls', 'processes', 'providers/local'],
      ['egress/sandbox'],
      ['providers', 'sandboxes/live'],
      ['config', 'sandboxes/provision'],
      ['http/responses', 'sandboxes'],
      ['http'],
      ['preview'],
      ['control', 'dataplane/files', 'limits', 'ws/session'],
      ['ws/ports', 'ws/processes', 'ws/watch'],
      ['ws'],
      ['dataplane'],
      ['.'],
    ],
  },
  {
    root: 'apps/cli/src',
    packages: ['@boxoffice/broker', '@boxoffice/agent', '@boxoffice/client', '@boxoffice/kit', '@boxoffice/mcp', '@boxoffice/protocol'],
    tiers: [['network', 'settings'], ['doctor', 'terminal'], ['sbs', 'transfer', 'commands/database'], ['commands'], ['.']],
  },
  {
    root: 'packages/kit/src',
    packages: [],
    tiers: [['addresses', 'bounds', 'waiting'], ['.']],
    portable: ['addresses', 'bounds', 'waiting', '.'],
  },
  {
    root: 'packages/protocol/src',
    packages: [],
    tiers: [['base'], ['dataplane', 'secrets'], ['sessions'], ['agents'], ['.']],
    portable: ['.'],
  },
  {
    root: 'packages/node-http/src',
    packages: ['@boxoffice/kit', '@boxoffice/protocol'],
    tiers: [['bodies', 'connections', 'fast-io', 'tokens'], ['refusals'], ['proxy'], ['.']],
  },
  {
    root: 'packages/client/src',
    packages: ['@boxoffice/kit', '@boxoffice/protocol'],
    tiers: [['base'], ['network'], ['control', 'dataplane'], ['stream'], ['sandbox'], ['.'], ['ai-sdk', 'computesdk', 'workspaces']],
    portable: [
      'base',
      'network',
      'control',
      'dataplane',
      'stream',
      'sandbox',
      'ai-sdk',
      'computesdk',
      'index.ts',
      'client.ts',
      'session.ts',
    ],
  },
  {
    root: 'packages/mcp/src',
    packages: ['@boxoffice/client', '@boxoffice/kit', '@boxoffice/protocol'],
    tiers: [['base'], ['environment'], ['tools'], ['.']],
    portable: ['base', 'environment', 'tools', '.'],
  },
  { root: 'packages/langgraph/src', packages: ['@boxoffice/client', '@boxoffice/protocol'], tiers: [['.']] },
  { root: 'packages/deepagents/src', packages: ['@boxoffice/client', '@boxoffice/kit'], tiers: [['.']] },
]

/** Outside packages that only some folders or files may import, and why. */
export const MODULES: Readonly<Record<string, { only: readonly string[]; why: string }>> = {
  dockerode: { only: ['apps/agent/src/providers/docker'], why: 'the engine is touched there alone' },
  'better-sqlite3': { only: ['apps/broker/src/store/sqlite', 'apps/broker/src/host/lock.ts'], why: 'SQL stays there' },
  pg: { only: ['apps/broker/src/store/copy', 'apps/broker/src/store/postgres'], why: 'SQL stays there' },
  'lru-cache': { only: ['packages/kit/src/bounds/bounded-cache.ts'], why: 'every bounded cache is a BoundedCache' },
  jose: {
    only: ['apps/broker/src/tokens', 'apps/broker/src/access', 'apps/agent/src/auth'],
    why: 'tokens are signed and verified there',
  },
  ws: {
    only: [
      'apps/agent/src/ws',
      'apps/broker/src/relay',
      'apps/broker/src/dataplane',
      'apps/broker/src/surfaces/box/sockets.ts',
      'apps/broker/src/surfaces/langsmith',
      'apps/broker/src/surfaces/mcp-tools/own-network.ts',
      'apps/cli/src/network',
      'packages/client/src/node.ts',
    ],
    why: 'WebSockets stay at the edges',
  },
}
