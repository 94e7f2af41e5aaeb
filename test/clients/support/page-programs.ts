import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'

/** The programs of a page in `docs/clients`, in their order: its blocks of a language. */
export const programsOf = (page: string, language = 'js'): string[] => {
  const text = readFileSync(join(ROOT, 'docs/clients', page), 'utf8')
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(([, found]) => found === language).map(([, , body]) => body ?? '')
}

/** Runs a program of a page as a reader would, against a stack; gives its stdout. Rejects with its stderr when it fails. */
export const runProgram = async (program: string, stack: Stack): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-page-'))
  try {
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    const file = join(directory, 'program.mjs')
    await writeFile(file, program.replaceAll('http://127.0.0.1:7070', stack.brokerUrl))
    const env = { ...process.env, BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY }
    const { stdout } = await promisify(execFile)(join(ROOT, '.tools/node'), [file], { cwd: directory, env, timeout: 120_000 })
    return stdout
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
