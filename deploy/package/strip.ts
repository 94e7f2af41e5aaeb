import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'

/** Where each import name of the workspace leads, below the root of the package. */
export type Entries = ReadonlyMap<string, string>

const SPECIFIER = /((?:\bfrom|\bimport)\s*\(?\s*)'([^'\n]+)'/g

/**
 * A source file as JavaScript, in the same place: Node takes types away from the files of a project, but not from those of an
 * installed package. Imports of our own packages become paths.
 */
export function writeStripped(source: string, target: string, root: string, entries: Entries): void {
  const code = stripTypeScriptTypes(readFileSync(source, 'utf8')).replace(SPECIFIER, (whole, before: string, specifier: string) => {
    const entry = entries.get(specifier)
    if (entry !== undefined) return `${before}'${pathTo(dirname(target), join(root, entry))}'`
    return specifier.startsWith('.') && specifier.endsWith('.ts') ? `${before}'${specifier.replace(/\.ts$/, '.js')}'` : whole
  })
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target.replace(/\.ts$/, '.js'), code)
}

const pathTo = (from: string, to: string): string => {
  const path = relative(from, to).replace(/\.ts$/, '.js')
  return path.startsWith('.') ? path : `./${path}`
}
