import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../e2e/support/program.ts'
import type { ClientMatrix } from './matrix.ts'

/** The version that the tests use: the installed one of npm, the pinned one of PyPI, the checkout's own. Throws for a package that is not there. */
export const versionOf = ({ registry, name }: ClientMatrix['packages'][number]): string => {
  if (registry === 'npm') return versionIn(join(ROOT, 'node_modules', name, 'package.json'))
  const version = registry === 'checkout' ? ownVersions().get(name) : pins().get(normal(name))
  if (version === undefined)
    throw new Error(registry === 'checkout' ? `no packages/*/pyproject.toml is ${name}` : `no file of deploy/setup/python pins ${name}`)
  return version
}

const versionIn = (manifest: string): string => (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version

const ownVersions = (): Map<string, string> =>
  new Map(
    globSync('packages/*/pyproject.toml', { cwd: ROOT }).map((file) => {
      const text = readFileSync(join(ROOT, file), 'utf8')
      const field = (name: string): string => new RegExp(`^${name} = "(.+)"`, 'm').exec(text)?.[1] ?? ''
      return [field('name'), field('version')] as const
    }),
  )

const pins = (): Map<string, string> => {
  const folder = join(ROOT, 'deploy/setup/python')
  const texts = globSync('*.txt', { cwd: folder }).map((file) => readFileSync(join(folder, file), 'utf8'))
  const lines = texts.flatMap((text) => [...text.matchAll(/^([\w.-]+)==(\S+)/gm)])
  return new Map(lines.map(([, name = '', version = '']) => [normal(name), version]))
}

/** PyPI takes these for the same. */
const normal = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')
