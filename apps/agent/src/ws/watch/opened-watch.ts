import { FileRoot } from '@boxoffice/protocol'
import { sandboxPath } from '../../files/paths.ts'
import { FileWatch } from '../../files/watch.ts'
import { Query } from '../../http/query.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'

/** A watch, and what it shows of itself. */
export type OpenedWatch = {
  watch: FileWatch
  recursive: boolean
  /** The directory as it was understood. */
  shown: string
  /** The path of something in it, as other calls name it. */
  pathOf(name: string): string
}

/** Watches what the query names, or throws why not. */
export const watchOf = async (sandbox: Sandbox, search: string, signal: AbortSignal): Promise<OpenedWatch> => {
  const query = new Query(search.replace(/^\?/, ''))
  const root = query.choice('root', FileRoot.options, 'workspace')
  const recursive = query.flag('recursive', false)
  const directory = sandboxPath(query.get('path') ?? '', root, sandbox)
  const { path, shown } = directory
  const prefix = path === '' || path === '/' ? path : `${path}/`
  const watch = await FileWatch.open(sandbox, directory, { recursive, signal })
  return { watch, recursive, shown, pathOf: (name) => prefix + name }
}
