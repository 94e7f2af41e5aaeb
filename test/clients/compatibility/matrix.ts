import { globSync } from 'node:fs'
import { join } from 'node:path'

export const MATRICES: string = join(import.meta.dirname, '../matrix')

/** `passed` does what the client's own documentation says; `501` is refused by name; `failed` is neither, and its note says why. */
export type Result = 'passed' | '501' | 'failed'

/** One call of a client, the test of its suite that shows it, and what is worth saying of it. */
export type Operation = { operation: string; result: Result; test: string; note?: string }

/** Calls that one test shows. */
export const passed = (test: string, ...operations: string[]): Operation[] =>
  operations.map((operation) => ({ operation, result: 'passed', test }))

/** Calls that one test shows to be refused by name. */
export const refused = (test: string, ...operations: string[]): Operation[] =>
  operations.map((operation) => ({ operation, result: '501', test }))

/** What one file in `matrix/` says of one client. */
export type ClientMatrix = {
  /** As its users call it. */
  client: string
  /**
   * Its package: in node_modules (an alias of one is fine), in a file of `deploy/setup/python`, or the checkout's own of this name. Several lines
   * of one package have one each.
   */
  packages: readonly { registry: 'npm' | 'pypi' | 'checkout'; name: string }[]
  /** Its page, in docs/clients. */
  page: string
  /** Where its tests run, in words. */
  runs: string
  /** Files with its tests, in the repository. */
  suites: readonly string[]
  operations: readonly Operation[]
}

/** All of them, by the name of the client. Each file in `matrix/` exports a `matrix`. */
export const readMatrices = async (): Promise<ClientMatrix[]> => {
  const files = globSync('*.ts', { cwd: MATRICES })
  const modules = await Promise.all(files.map((file) => import(join(MATRICES, file)) as Promise<{ matrix: ClientMatrix }>))
  return modules.map(({ matrix }) => matrix).toSorted((a, b) => (a.client.toLowerCase() < b.client.toLowerCase() ? -1 : 1))
}
