import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeWorkspaces, createSessionSandbox, type WorkspaceLogger } from '@boxoffice/client/workspaces'
import { test } from 'vitest'

export type Told = { event: string; [field: string]: unknown }

/** A root of its own, with one session in it, and what was told of it. */
export type Fixture = {
  root: string
  id: string
  directory: string
  told: Told[]
  logger: WorkspaceLogger
  options: { workspaceRoot: string; logger: WorkspaceLogger }
}

export const makeFixture = async (): Promise<Fixture & AsyncDisposable> => {
  const parent = await realpath(await mkdtemp(join(tmpdir(), 'bxo-workspaces-')))
  const root = join(parent, 'workspace')
  const told: Told[] = []
  const take = (fields: Record<string, unknown>): void => void told.push(fields as Told)
  const logger = { info: take, warn: take }
  const [id] = await createSessionSandbox({ workspaceRoot: root })
  return {
    ...{ root, id, directory: join(root, id), told, logger, options: { workspaceRoot: root, logger } },
    [Symbol.asyncDispose]: async () => {
      await closeWorkspaces()
      await rm(parent, { recursive: true, force: true })
    },
  }
}

export const workspaceTest = test.extend<{ workspace: Fixture }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the pattern
  workspace: async ({}, use) => {
    await using fixture = await makeFixture()
    await use(fixture)
  },
})
