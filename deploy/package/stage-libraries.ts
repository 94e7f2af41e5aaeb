import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { VERSION } from '../../packages/kit/src/version.ts'
import { installedVersion, readManifest } from './dependencies.ts'
import { ROOT, supervisorsOf, writeManifest } from './stage.ts'

/** What programs import, after what they need themselves. */
export const LIBRARIES = ['kit', 'protocol', 'client', 'mcp', 'deepagents', 'langgraph'] as const

/** Writes the packages that programs import, each into its folder of `directory`, as JavaScript with types. */
export function stageLibraries(directory: string): string[] {
  const compiled = join(directory, '.compiled')
  mkdirSync(compiled, { recursive: true })
  const config = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      ...{ noEmit: false, declaration: true, rewriteRelativeImportExtensions: true },
      ...{ rootDir: ROOT, outDir: compiled, typeRoots: [join(ROOT, 'node_modules/@types')] },
    },
    include: LIBRARIES.map((name) => join(ROOT, 'packages', name, 'src')),
  }
  writeFileSync(join(compiled, 'tsconfig.json'), JSON.stringify(config))
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', compiled], { stdio: ['ignore', 'inherit', 'inherit'] })
  return LIBRARIES.map((name) => {
    const [from, to] = [join(ROOT, 'packages', name), join(directory, name)]
    cpSync(join(compiled, 'packages', name, 'src'), join(to, 'dist'), { recursive: true })
    cpSync(join(from, 'README.md'), join(to, 'README.md'))
    cpSync(join(ROOT, 'LICENSE'), join(to, 'LICENSE'))
    writeManifest(to, manifestOf(from))
    return to
  })
}

/** Of packages that run where the product itself does not. */
const OLDEST_NODE = { '@boxoffice/client': '>=20', '@boxoffice/kit': '>=20', '@boxoffice/protocol': '>=20' }

const manifestOf = (from: string): object => {
  const { name, license, exports = {}, dependencies = {}, peerDependencies, peerDependenciesMeta } = readManifest(from)
  const files = typeof exports === 'string' ? { '.': exports } : exports
  return {
    ...{
      name,
      version: VERSION,
      license,
      type: 'module',
      engines: { node: name in OLDEST_NODE ? OLDEST_NODE[name as keyof typeof OLDEST_NODE] : '>=24' },
    },
    exports: exportsOf(files),
    dependencies: Object.fromEntries(
      Object.keys(dependencies).map((each) => [each, each.startsWith('@boxoffice/') ? VERSION : installedVersion(each, from)]),
    ),
    ...{ peerDependencies, peerDependenciesMeta },
    // Sessions that are directories of this machine read files by it.
    ...(name === '@boxoffice/client' ? { optionalDependencies: supervisorsOf() } : {}),
  }
}

/** What `./node` adds is what Node gets for `.`. */
const exportsOf = ({ './node': node, ...files }: Record<string, string>): object => {
  const built = Object.entries(files).map(([path, source]) => [path, builtFrom(source)] as const)
  return Object.fromEntries(
    built.map(([path, { types, default: file }]) => [
      path,
      path === '.' && node !== undefined ? { types, node: builtFrom(node).default, default: file } : { types, default: file },
    ]),
  )
}

const builtFrom = (source: string): { types: string; default: string } => {
  const stem = source.replace('./src/', './dist/').replace(/\.ts$/, '')
  return { types: `${stem}.d.ts`, default: `${stem}.js` }
}
