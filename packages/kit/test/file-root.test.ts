import { expect, test } from 'vitest'
import { fileRootOf, forCommands } from '../src/file-root.ts'

test.for([
  ['/workspace', 'workspace', '.'],
  ['/app/', 'workspace', '.'],
  ['//workspace//a b/c', 'workspace', './a b/c'],
  ['/app/a', 'workspace', './a'],
  ['-v', 'workspace', './-v'],
  ['/workspaces/a', 'sandbox', '/workspaces/a'],
  ['/tmp/a', 'sandbox', '/tmp/a'],
] as const)('[3.8] %j is in the %s, and %j for commands', ([path, root, forCommand]) => {
  expect([fileRootOf(path), forCommands(path)]).toEqual([root, forCommand])
})
