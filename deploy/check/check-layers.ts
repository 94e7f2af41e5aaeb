// Checks the table of layers.ts against every import of the source trees: by value and by type, static and dynamic. Prints what
// breaks a rule, one line each, and ends with status 1 then. Also a circle of files within one folder is refused.
import { globSync, readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { parseSync } from 'oxc-parser'
import { MODULES, TREES, type Tree } from './layers.ts'

const findings: string[] = []
for (const tree of TREES) findings.push(...check(tree))
for (const finding of findings) console.error(`layers: ${finding}`)
process.exitCode = findings.length > 0 ? 1 : 0

function check({ root, tiers, packages, portable = [] }: Tree): string[] {
  const tierOf = new Map(tiers.flatMap((folders, tier) => folders.map((folder) => [folder, tier] as const)))
  const files = globSync('**/*.ts', { cwd: root }).sort()
  const found: string[] = []
  const graph = new Map<string, string[]>()
  const folders = new Set(files.map(folderOf))
  for (const folder of folders)
    if (!tierOf.has(folder)) found.push(`${join(root, folder)}: the folder is in no tier of deploy/check/layers.ts`)
  for (const folder of tierOf.keys()) if (!folders.has(folder)) found.push(`${root}: tier names ${folder}, which is not there`)
  for (const file of files) {
    const path = join(root, file)
    const own: string[] = []
    for (const specifier of specifiersOf(path)) {
      if (!specifier.startsWith('.')) {
        found.push(...outside(path, file, specifier, packages, portable))
        continue
      }
      const target = relative(root, join(root, dirname(file), specifier))
      own.push(target)
      if (target.startsWith('..')) found.push(`${path}: imports ${specifier}; import another package by its name`)
      else if (folderOf(target) !== folderOf(file) && !((tierOf.get(folderOf(target)) ?? -1) < (tierOf.get(folderOf(file)) ?? -1)))
        found.push(`${path}: imports ${target}, but ${folderOf(target)} is not below ${folderOf(file)}`)
    }
    graph.set(file, own)
  }
  return [...found, ...circles(graph).map((circle) => `${root}: circle of files ${circle.join(' → ')}`)]
}

function outside(path: string, file: string, specifier: string, packages: readonly string[], portable: readonly string[]): string[] {
  const name = specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : (specifier.split('/')[0] as string)
  if (name.startsWith('@boxoffice/')) return packages.includes(name) ? [] : [`${path}: may not import ${name}`]
  if (specifier.startsWith('node:') || builtinModules.includes(name))
    return portable.some((folder) => isIn(file, folder)) ? [`${path}: imports ${specifier}, but runs where there is no Node`] : []
  const rule = MODULES[name]
  if (rule === undefined || rule.only.some((place) => isIn(path, place))) return []
  return [`${path}: imports ${name}; ${rule.why} (${rule.only.join(', ')})`]
}

function specifiersOf(path: string): string[] {
  const text = readFileSync(path, 'utf8')
  const { module, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`)
  const dynamic = module.dynamicImports.flatMap(({ moduleRequest }) => {
    const literal = /^['"](.*)['"]$/.exec(text.slice(moduleRequest.start, moduleRequest.end))
    return literal === null ? [] : [literal[1] as string]
  })
  const reexported = module.staticExports.flatMap(({ entries }) => entries.flatMap((entry) => entry.moduleRequest?.value ?? []))
  return [...new Set([...module.staticImports.map(({ moduleRequest }) => moduleRequest.value), ...reexported, ...dynamic])]
}

/** The first circle that each file closes, by depth first search. */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>()
  const found: string[][] = []
  const visit = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file)
    if (at !== -1) found.push([...way.slice(at), file])
    if (at !== -1 || done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...way, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
  return found
}

function folderOf(file: string): string {
  return dirname(file)
}

/** A place is a file, or a folder with all below it; `.` is everything. */
function isIn(file: string, place: string): boolean {
  return place === '.' || file === place || file.startsWith(`${place}/`)
}
