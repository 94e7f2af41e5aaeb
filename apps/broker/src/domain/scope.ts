import { createHash } from 'node:crypto'
import type { Scope } from '@boxoffice/protocol'

export const threadScope = (threadId: string): Scope => ({ type: 'thread', id: threadId })

/** The thread of a scope; null for other types [C-10]. */
export const threadOf = (scope: Scope): string | null => (scope.type === 'thread' ? scope.id : null)

/** The same scope finds the same workspace again, without a table; no caller's text reaches a path. */
export const workspaceIdOf = (tenant: string, scope: Scope): string =>
  createHash('sha256')
    .update(JSON.stringify([tenant, scope.type, scope.id]))
    .digest('hex')
    .slice(0, 32)
