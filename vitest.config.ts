import { defineConfig } from 'vitest/config'

// Timeouts are guards against hanging, not expectations: two shared cores can be slow.
const DATAPLANE = 'apps/agent/test/dataplane-*.test.ts'
const THROUGH_RELAY = 'test/dataplane/through-relay.ts'
/** Do nothing but wait, for minutes: they run beside the others. */
const WAITS = '**/dataplane-slow.test.ts'

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['packages/*/test/**/*.test.ts', 'apps/*/test/**/*.test.ts'],
          exclude: ['**/*.docker.test.ts', WAITS, '**/node_modules/**'],
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      {
        test: {
          // The agent's dataplane suites once more, unchanged, through the broker's relay [4-150].
          name: 'relay',
          include: [DATAPLANE],
          // No routes: token check, supervisor wire, and what the agent itself notes of who comes to its own door.
          exclude: ['**/dataplane-{auth,wire,journal}.test.ts', WAITS, '**/node_modules/**'],
          setupFiles: [THROUGH_RELAY],
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      { test: { name: 'waits', include: [WAITS], hookTimeout: 30_000 } },
      { test: { name: 'waits-relay', include: [WAITS], setupFiles: [THROUGH_RELAY], hookTimeout: 30_000 } },
      {
        test: {
          name: 'stack',
          include: ['test/**/*.test.ts'],
          exclude: ['**/*.docker.test.ts', '**/node_modules/**'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'docker',
          include: ['{apps,packages}/*/test/**/*.docker.test.ts', 'test/**/*.docker.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // One engine: files that count its containers must not meet those of another file.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
