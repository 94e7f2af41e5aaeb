import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

type Crate = { id: string; name: string; version: string; license: string | null; manifest_path: string; source: string | null }
type Metadata = { packages: Crate[]; resolve: { nodes: { id: string }[] } }

const SUPERVISOR = resolve(import.meta.dirname, '../../packages/supervisor')

/** The licenses of the crates that are linked into the supervisor for `target`, each crate's texts below its name. */
export function noticesOf(target: string): string {
  const args = ['metadata', '--locked', '--format-version=1', '--filter-platform', target]
  const { packages, resolve } = JSON.parse(
    execFileSync('cargo', args, { cwd: SUPERVISOR, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 }),
  ) as Metadata
  const linked = new Set(resolve.nodes.map(({ id }) => id))
  const crates = packages.filter(({ id, source }) => source !== null && linked.has(id))
  const texts = crates.map(({ name, version, license, manifest_path }) => {
    const directory = dirname(manifest_path)
    const files = readdirSync(directory).filter((file) => /^(licen[cs]e|copying|copyright|notice|unlicense)/i.test(file))
    return [`${name} ${version}: ${license}`, ...files.sort().map((file) => readFileSync(join(directory, file), 'utf8').trim())].join(
      '\n\n',
    )
  })
  const head = 'Linked into this binary, beside the standard library of Rust (MIT OR Apache-2.0) and the C library musl (MIT):'
  return `${[head, ...texts].join(`\n\n${'-'.repeat(80)}\n\n`)}\n`
}

const [target, path] = process.argv.slice(2)
if (import.meta.main && target !== undefined && path !== undefined) writeFileSync(path, noticesOf(target))
