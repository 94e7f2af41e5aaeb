import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'

/** What starts from the bundle. The others are servers, or look for files from where they are themselves. */
const COMMANDS = ['exec', 'shell'].map((command) => `./commands/${command}.ts`)
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

/** Runs the bundle; the sources, where one of them has changed. Zod makes no code for its checks: none of them runs often enough. */
const startOf = (name: string): string => `// Made by deploy/package/bundle.ts.
const { readFileSync, statSync } = process.getBuiltinModule('node:fs')
const at = import.meta.dirname + '/'
const isSame = ([path, bytes, changedMs]) => {
  const stat = statSync(at + path, { throwIfNoEntry: false })
  return stat?.size === bytes && stat.mtimeMs === changedMs
}
globalThis.__zod_globalConfig = { jitless: true }
await import(JSON.parse(readFileSync(at + '${name}.json', 'utf8')).every(isSame) ? './${name}.js' : '../src/main.ts')
`

const isFresh = (directory: string): boolean => {
  try {
    const [name] = /bundle-\w+/.exec(readFileSync(join(directory, 'main.js'), 'utf8')) ?? []
    const inputs = readFileSync(join(directory, `${name}.json`), 'utf8')
    const paths = (JSON.parse(inputs) as Inputs).map(([path]) => path)
    return JSON.stringify(inputsOf(directory, paths)) === inputs
  } catch {
    return false
  }
}

/**
 * Makes one file of the 130 that `boxoffice exec` and `shell` of the checkout at `root` load: that halves their start. False: the one
 * that is there is of the present sources.
 */
export async function bundle(root: string): Promise<boolean> {
  const directory = join(root, 'apps/cli/dist')
  if (isFresh(directory)) return false
  const began = Date.now()
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    input: join(root, 'apps/cli/src/main.ts'),
    platform: 'node',
    external: (name) => name.startsWith('./commands/') && !COMMANDS.includes(name),
  })
  const { output } = await build.generate({ format: 'esm', codeSplitting: false })
  await build.close()
  const [{ code, moduleIds }] = output
  const paths = [import.meta.filename, ...moduleIds.filter((id) => id.startsWith('/'))].map((path) => relative(directory, path))
  const sources = inputsOf(directory, paths)
  // One that was being written may have been read before or after: the next set-up makes the bundle.
  if (sources.some(([, , changedMs]) => changedMs >= began)) return false
  const inputs = JSON.stringify(sources)
  const name = `bundle-${createHash('sha256').update(code).update(inputs).digest('hex').slice(0, 12)}`
  mkdirSync(directory, { recursive: true })
  for (const [file, text] of [
    [`${name}.js`, code],
    [`${name}.json`, inputs],
    ['main.js', startOf(name)],
  ] as const) {
    const path = join(directory, file)
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
  for (const file of readdirSync(directory).map((entry) => join(directory, entry)))
    if (statSync(file).mtimeMs < Date.now() - KEPT_MS) rmSync(file)
  return true
}

if (import.meta.main) {
  try {
    if (await bundle(resolve(import.meta.dirname, '../..'))) process.stderr.write('setup: made a bundle of the command line\n')
  } catch (error) {
    process.stderr.write(`setup: no bundle of the command line, whose commands start slower without: ${(error as Error).message}\n`)
  }
}
