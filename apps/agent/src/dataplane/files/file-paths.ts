import { FileRoot } from '@boxoffice/protocol'
import { type SandboxPath, sandboxPath } from '../../files/paths.ts'
import type { Call } from '../../http/call.ts'

/** The root that the request names. The aliases' clients live at `/`, so theirs is the sandbox, where it has one of its own. */
const rootOf = ({ query, alias, sandbox }: Call): FileRoot => {
  return query.choice('root', FileRoot.options, alias && sandbox.isolation !== 'none' ? 'sandbox' : 'workspace')
}

export const pathOf = (call: Call, given: string): SandboxPath => sandboxPath(given, rootOf(call), call.sandbox)
