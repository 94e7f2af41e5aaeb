import { defineConfig } from 'vitest/config'
import { readRequirements } from './test/requirements/pages.ts'

// Timeouts are guards against hanging, not expectations: two shared cores can be slow.
const DATAPLANE = 'apps/agent/test/dataplane/**/*.test.ts'
const THROUGH_RELAY = 'test/dataplane/through-relay.ts'
const CLIENTS = 'test/clients/**/*.test.ts'
/** Do nothing but wait, for minutes: they run beside the others. */
const WAITS = '**/sockets/slow.test.ts'
/** Need the one-node Kubernetes of deploy/cluster: `npm run test:cluster` starts it. */
const CLUSTER = '**/*.cluster.test.ts'
/** Suites that run in every place: each database with each provider. */
const IN_EVERY_PLACE = 'test/e2e/**/{access,concurrency,events,fallback,mounts,recovery,relay,scopes,suspend,truth}.test.ts'
/** `expect.poll` gives up after a second by itself. */
const PATIENT = { poll: { timeout: 60_000 } }

/** Project of those suites in one place; SQLite's places are `stack` and `docker`. */
const inPlace = (name: string, { setUps = [], ...more }: { setUps?: string[]; fileParallelism?: boolean; sequence?: object }) => ({
  test: {
    name,
    include: [IN_EVERY_PLACE],
    env: { BOXOFFICE_TEST_PLACE: name },
    globalSetup: ['postgres-server', ...setUps].map((setUp) => `test/e2e/support/places/${setUp}.ts`),
    expect: PATIENT,
    // Two brokers, and pods that take seconds.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    ...more,
  },
})

export default defineConfig({
  test: {
    // A test that shows a requirement has its number as a tag; one that docs/requirements does not have is an error.
    tags: [...readRequirements().keys()].map((name) => ({ name })),
    projects: [
      {
        test: {
          name: 'unit',
          include: ['packages/*/test/**/*.test.ts', 'apps/*/test/**/*.test.ts'],
          exclude: ['**/*.docker.test.ts', CLUSTER, WAITS, '**/node_modules/**'],
          expect: PATIENT,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          // The agent's suites of dataplane and previews once more, unchanged, through the broker's relay [4-150].
          name: 'relay',
          include: [DATAPLANE, 'apps/agent/test/preview/**/*.test.ts'],
          // No routes: the token check, and what the agent itself notes of who comes to its own door.
          exclude: ['**/auth/tokens.test.ts', '**/http/journal.test.ts', '**/*.docker.test.ts', WAITS, '**/node_modules/**'],
          setupFiles: [THROUGH_RELAY],
          expect: PATIENT,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      { test: { name: 'waits', include: [WAITS], expect: PATIENT, hookTimeout: 120_000 } },
      { test: { name: 'waits-relay', include: [WAITS], expect: PATIENT, setupFiles: [THROUGH_RELAY], hookTimeout: 120_000 } },
      {
        test: {
          name: 'stack',
          include: ['test/**/*.test.ts'],
          exclude: ['**/*.docker.test.ts', CLUSTER, CLIENTS, '**/node_modules/**'],
          expect: PATIENT,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          // Published packages of others, each against a running Boxoffice.
          name: 'clients',
          include: [CLIENTS],
          exclude: ['**/*.docker.test.ts', '**/node_modules/**'],
          expect: PATIENT,
          // One test may be a whole file of pytest, or mypy without a cache.
          testTimeout: 400_000,
          hookTimeout: 400_000,
        },
      },
      {
        test: {
          name: 'docker',
          include: ['{apps,packages}/*/test/**/*.docker.test.ts', 'test/**/*.docker.test.ts'],
          expect: PATIENT,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // One engine: files that count its containers must not meet those of another file.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      inPlace('postgres-local', {}),
      inPlace('postgres-docker', { sequence: { groupOrder: 3 } }),
      // Needs the cluster, as the next one.
      inPlace('postgres-kubernetes', { setUps: ['kubernetes-namespace'], sequence: { groupOrder: 4 } }),
      {
        test: {
          name: 'cluster',
          include: ['{apps,packages}/*/test/**/*.cluster.test.ts', 'test/**/*.cluster.test.ts'],
          expect: PATIENT,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // One node, for the same reason.
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
