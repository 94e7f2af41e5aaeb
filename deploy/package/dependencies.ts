import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

export type Manifest = {
  name: string
  version: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  exports?: string | Record<string, string>
  [field: string]: unknown
}

export const readManifest = (directory: string): Manifest => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest

/** What `name` means to the package at `from`: its real directory, or undefined where an optional one was not installed. */
const resolvePackage = (name: string, from: string): string | undefined => {
  for (let directory = from; ; directory = dirname(directory)) {
    const candidate = join(directory, 'node_modules', name)
    if (existsSync(candidate)) return realpathSync(candidate)
    // Where pnpm keeps a package, those that it needs are its neighbours.
    const neighbour = basename(directory) === 'node_modules' ? join(directory, name) : undefined
    if (neighbour !== undefined && existsSync(neighbour)) return realpathSync(neighbour)
    if (directory === dirname(directory)) return undefined
  }
}

/** The version of `name` that the package at `from` gets. */
export const installedVersion = (name: string, from: string): string => {
  const source = resolvePackage(name, from)
  if (source === undefined) throw new Error(`${name}, which ${from} needs, is not installed; run the set-up`)
  return readManifest(source).version
}

/** Not needed to run: sources of what has been compiled, types, tests and documents. */
const LEFT_OUT =
  /(^|\/)(deps|src\/.*\.(c|cpp|h|hpp|lzz)|node_modules|test|tests|docs|example|examples|\.github)(\/|$)|\.(d\.[cm]?ts|map|md|markdown|gyp)$/

/** Stay whatever they end with: to pass a package on without its license is not allowed. */
const LICENSES = /(^|\/)(licen[cs]e|copying|notice)[^/]*$/i

const isNeeded = (path: string): boolean => LICENSES.test(path) || !LEFT_OUT.test(path)

/**
 * Copies every package that `manifests` need, and what those need, into one `node_modules` as npm lays it out: at the top, and
 * below the one that needs it where another version is at the top already. Gives the versions at the top.
 */
export function copyDependencies(packages: readonly { directory: string; manifest: Manifest }[], to: string): Record<string, string> {
  const top = new Map<string, string>()
  const place = (name: string, from: string, parent: string | undefined, isOptional: boolean): void => {
    const source = resolvePackage(name, from)
    if (source === undefined) {
      if (isOptional) return
      throw new Error(`${name}, which ${from} needs, is not installed; run the set-up`)
    }
    const known = top.get(name)
    if (known === source) return
    const target = known === undefined || parent === undefined ? join(to, name) : join(parent, 'node_modules', name)
    if (existsSync(target)) return
    if (known === undefined) top.set(name, source)
    const manifest = copyPackage(source, target)
    for (const dependency of Object.keys(manifest.dependencies ?? {})) place(dependency, source, target, false)
    for (const dependency of Object.keys(manifest.optionalDependencies ?? {})) place(dependency, source, target, true)
  }
  for (const { directory, manifest } of packages)
    for (const name of Object.keys(manifest.dependencies ?? {}))
      if (!name.startsWith('@boxoffice/')) place(name, directory, undefined, false)
  return Object.fromEntries([...top].map(([name, source]) => [name, readManifest(source).version]))
}

/** Without its scripts: what they would build is there. */
const copyPackage = (source: string, target: string): Manifest => {
  mkdirSync(dirname(target), { recursive: true })
  cpSync(source, target, { recursive: true, filter: (path) => path === source || isNeeded(path.slice(source.length + 1)) })
  const { scripts: _scripts, devDependencies: _dev, ...manifest } = readManifest(source)
  writeFileSync(join(target, 'package.json'), JSON.stringify(manifest, null, 2))
  return manifest
}
