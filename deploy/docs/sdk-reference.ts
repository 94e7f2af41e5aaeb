// `npm run docs` writes docs/sdk-reference.md from the declarations and docstrings of the SDK.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const REFERENCE = join(import.meta.dirname, 'reference')

export const SDK_REFERENCE = join(ROOT, 'docs/sdk-reference.md')

const HEAD = '# API of the SDK\n\nWritten by `npm run docs` from the docstrings. [The SDK](sdk.md) says how its parts go together.\n'

const TABLES = ['parameters', 'properties', 'interfaceProperties', 'typeDeclaration'].map((what) => `--${what}Format`)
const FLAGS = [
  ...['--plugin', 'typedoc-plugin-markdown', '--entryPoints', join(ROOT, 'packages/client/src/index.ts')],
  ...['--tsconfig', join(REFERENCE, 'tsconfig.json'), '--outputFileStrategy', 'modules', '--readme', 'none', '--logLevel', 'Error'],
  ...['--disableSources', '--hideBreadcrumbs', '--hidePageHeader', '--hidePageTitle', '--excludePrivate', '--excludeExternals'],
  ...['--useHTMLAnchors', ...TABLES.flatMap((flag) => [flag, 'table'])],
]

/** The text of the page. It takes some ten seconds of a processor. */
export function sdkReferencePage(): string {
  const out = mkdtempSync(join(tmpdir(), 'sdk-reference-'))
  try {
    const typedoc = join(REFERENCE, 'node_modules/typedoc/bin/typedoc')
    execFileSync(process.execPath, [typedoc, ...FLAGS, '--out', out], { cwd: REFERENCE, stdio: ['ignore', 'ignore', 'inherit'] })
    return `${HEAD}\n${readFileSync(join(out, 'README.md'), 'utf8').trim()}\n`
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  writeFileSync(SDK_REFERENCE, sdkReferencePage())
  process.stdout.write('docs/sdk-reference.md\n')
}
