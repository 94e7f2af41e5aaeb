import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Profile } from '@boxoffice/protocol'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { MiB } from '../../src/host/space.ts'
import type { Holds } from '../../src/limits/holds.ts'
import { type Limited, WorkspaceQuotas } from '../../src/limits/workspace-quotas.ts'

test('an upload that ended while the workspace was counted does not keep out the next one', async () => {
  const workspaceDirectory = mkdtempSync(join(tmpdir(), 'quota-'))
  onTestFinished(() => rm(workspaceDirectory, { recursive: true }))
  const sandbox = { workspaceDirectory, profile: Profile.parse({ name: 'limited', workspace_quota_mb: 10 }) } as Limited
  const log = pino({ level: 'silent' })
  const quotas = new WorkspaceQuotas({ sandboxes: () => [sandbox], holds: { size: 0 } as Holds<Limited>, log })

  const refused = quotas.begin(sandbox, 8 * MiB)
  const meanwhile = quotas.roomIn(sandbox, 5 * MiB)
  refused[Symbol.dispose]()
  expect(await quotas.roomIn(sandbox, 5 * MiB)).toBe(10 * MiB)
  expect(await meanwhile).toBeLessThanOrEqual(10 * MiB)
})
