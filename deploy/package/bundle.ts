import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin } from 'rolldown'

/** What starts from a bundle: the commands that a person waits for, and the servers. */
const BUNDLES: Readonly<Record<string, readonly string[]>> = { commands: ['exec', 'shell'], servers: ['up', 'broker', 'agent'] }
/** Packages that stay where they are: one has a library of the machine beside it, the other is loaded where an engine is looked for. */
const OUTSIDE = /\/node_modules\/(better-sqlite3|dockerode)\//
/** Somebody may be between the start and the bundle that it named. */
const KEPT_MS = 60_000

/** Files that went into a bundle: paths from its directory, sizes in bytes, last changes in milliseconds. */
type Inputs = [path: string, bytes: number, changedMs: number][]

/** Of the files that are there still. */
const inputsOf = (directory: string, paths: readonly string[]): Inputs =>
  paths.flatMap((path): Inputs => {
    const stat = statSync(join(directory, path), { throwIfNoEntry: false })
    return stat === undefined ? [] : [[path, stat.size, stat.mtimeMs]]
  })

/** Sources that look for files from where they are find them from the bundle too. */
const KEEP_PLACES: Plugin = {
  name: 'keep-places',
  transform: {
    filter: { id: /^\//, code: /import\.meta\.(dirname|url)/ },
    handler: (code, id) =>
      code
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href)),
  },
}

/**
 * Runs the bundle; the sources, where one of them has changed or all have moved. Zod makes no code for the checks of commands: none of them
 * runs often enough.
 */
const startOf = (bundle: string, directory: string, name: string): string => `// Made by deploy/package/bundle.ts.
const { readFileSync, statSync } = process.getBuiltinModule('node:fs')
const at = ${JSON.stringify(`${directory}/`)}
const isSame = ([path, bytes, changedMs]) => {
  const stat = statSync(at + path, { throwIfNoEntry: false })
  return stat?.size === bytes && stat.mtimeMs === changedMs
}
${bundle === 'commands' ? 'globalThis.__zod_globalConfig = { jitless: true }\n' : ''}\
const isFresh = at === import.meta.dirname + '/' && JSON.parse(readFileSync(at + '${name}.json', 'utf8')).every(isSame)
await import(isFresh ? './${name}.js' : '../src/main.ts')
`

const isFresh = (directory: string, bundle: string): boolean => {
  try {
    const start = readFileSync(join(directory, `${bundle}.js`), 'utf8')
    // The directory stands there too, and may be called as a bundle is.
    const name = /'\.\/([\w-]+)\.js'/.exec(start)?.[1] ?? ''
    if (start !== startOf(bundle, directory, name)) return false
    const inputs = readFileSync(join(directory, `${name}.json`), 'utf8')
    const paths = (JSON.parse(inputs) as Inputs).map(([path]) => path)
    return JSON.stringify(inputsOf(directory, paths)) === inputs
  } catch {
    return false
  }
}

/**
 * Makes one file of what `boxoffice exec` and `shell` of the checkout at `root` load, 130 modules, and one of what its servers load, 1,200:
 * the start of both takes half as long. Gives the names of the bundles that it has made: none where those there are of the present sources.
 */
export async function bundle(root: string): Promise<string[]> {
  const directory = join(root, 'apps/cli/dist')
  const made: string[] = []
  for (const [name, commands] of Object.entries(BUNDLES))
    if (!isFresh(directory, name) && (await make(root, directory, name, commands))) made.push(name)
  if (made.length > 0) removeOld(directory)
  return made
}

async function make(root: string, directory: string, bundle: string, commands: readonly string[]): Promise<boolean> {
  const began = Date.now()
  const sourceDirectory = join(root, 'apps/cli/src')
  const own = commands.map((command) => `./commands/${command}.ts`)
  const isOtherCommand = (name: string, importer = ''): boolean =>
    dirname(importer) === sourceDirectory && name.startsWith('./commands/') && !own.includes(name)
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    input: join(sourceDirectory, 'main.ts'),
    platform: 'node',
    external: (name, importer) => isOtherCommand(name, importer) || OUTSIDE.test(name),
    plugins: [KEEP_PLACES],
  })
  const { output } = await build.generate({ format: 'esm', codeSplitting: false })
  await build.close()
  const [{ code, moduleIds }] = output
  const paths = [import.meta.filename, ...moduleIds.filter((id) => id.startsWith('/'))].map((path) => relative(directory, path))
  const sources = inputsOf(directory, paths)
  // One that was being written may have been read before or after: the next set-up makes the bundle.
  if (sources.some(([, , changedMs]) => changedMs >= began)) return false
  const inputs = JSON.stringify(sources)
  const name = `${bundle}-${createHash('sha256').update(code).update(inputs).digest('hex').slice(0, 12)}`
  mkdirSync(directory, { recursive: true })
  for (const [file, text] of [
    [`${name}.js`, code],
    [`${name}.json`, inputs],
    [`${bundle}.js`, startOf(bundle, directory, name)],
  ] as const) {
    const path = join(directory, file)
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
  return true
}

/** Of bundles of before. */
function removeOld(directory: string): void {
  const starts = Object.keys(BUNDLES).map((name) => join(directory, `${name}.js`))
  const named = starts.map((path) => (existsSync(path) ? readFileSync(path, 'utf8') : '')).join()
  for (const entry of readdirSync(directory)) {
    const path = join(directory, entry)
    const isUsed = starts.includes(path) || named.includes(entry.replace(/\.\w+$/, ''))
    if (!isUsed && statSync(path).mtimeMs < Date.now() - KEPT_MS) rmSync(path)
  }
}

if (import.meta.main) {
  try {
    const made = await bundle(resolve(import.meta.dirname, '../..'))
    if (made.length > 0) process.stderr.write(`setup: made bundles: ${made.join(', ')}\n`)
  } catch (error) {
    process.stderr.write(`setup: no bundles, without which the command line and the servers start slower: ${(error as Error).message}\n`)
  }
}
