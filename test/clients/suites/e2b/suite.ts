import { afterAll, beforeAll } from 'vitest'
import type { ProviderName } from '../../../e2e/support/stack.ts'
import { accessCases } from './access.ts'
import { commandsCases, moreCommandsCases } from './commands.ts'
import { filesCases, moreFilesCases } from './files.ts'
import { lifeCases, moreLifeCases } from './life.ts'
import { E2bStand } from './stand.ts'

/** E2B's published SDK against a running Boxoffice (contract 7.3). `whole`: every case, not only those of another engine. */
export const e2bSuite = (provider: ProviderName, { whole }: { whole: boolean }): void => {
  const stand = new E2bStand()
  beforeAll(() => stand.start(provider))
  afterAll(() => stand.stack[Symbol.asyncDispose]())
  for (const cases of [commandsCases, filesCases, lifeCases]) cases(stand)
  if (!whole) return
  for (const cases of [moreCommandsCases, moreFilesCases, moreLifeCases, accessCases]) cases(stand)
}
