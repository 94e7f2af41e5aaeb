import type { Scope } from '@boxoffice/protocol'

export const threadScope = (threadId: string): Scope => ({ type: 'thread', id: threadId })

/** The thread of a scope; null for other types [C-10]. */
export const threadOf = (scope: Scope): string | null => (scope.type === 'thread' ? scope.id : null)
