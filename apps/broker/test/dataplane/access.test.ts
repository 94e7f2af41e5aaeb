import { expect, test } from 'vitest'
import { heldTo } from '../../src/dataplane/access.ts'
import type { GrantRecord } from '../../src/store/session-store.ts'

const asked = { actor: 'bob', capabilities: ['exec', 'fs_read'], allowedAt: 100 } as const
const narrowed = (narrowedAt: number | null, narrowedTo: GrantRecord['narrowedTo']) => ({ narrowedAt, narrowedTo }) as GrantRecord

test.for([
  ['no grant', undefined, ['exec', 'fs_read'], 0],
  ['a grant that was never narrowed', narrowed(null, null), ['exec', 'fs_read'], 0],
  ['narrowed before', narrowed(99, []), ['exec', 'fs_read'], 100],
  ['narrowed in the same second', narrowed(100, ['fs_read']), ['fs_read'], 101],
  ['withdrawn since', narrowed(101, []), [], 102],
] as const)('[C-57] an actor is held to its grant: %s', ([, grant, capabilities, notBefore]) => {
  expect(heldTo(grant, asked)).toEqual({ actor: 'bob', capabilities, notBefore })
})
