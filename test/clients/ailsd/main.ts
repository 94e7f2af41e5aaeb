// `npm run verify:ailsd -- PATH` runs the commands of docs/clients/ailsd.md with a built `ailsd`, against a Boxoffice of its own.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { API_KEY, MODES, startStack } from '../../e2e/support/stack.ts'
import { programsOf } from '../support/page-programs.ts'
import { runToEnd } from '../support/pytest.ts'

const binary = process.argv[2]
if (binary === undefined) throw new Error('usage: npm run verify:ailsd -- /path/to/ailsd')

/** What the commands of the page print, among more. */
const EXPECTED = ['hello from /workspace\n', '\n42\n', 'Created sandbox: demo\n', '\nsynced.txt\n', 'Deleted sandbox: demo\n']

for (const mode of MODES) {
  await using stack = await startStack({ provider: 'local', mode })
  const home = await mkdtemp(join(tmpdir(), 'bxo-ailsd-'))
  try {
    await writeFile(join(home, 'synced.txt'), '')
    const commands = programsOf('ailsd.md', 'sh').join('').replaceAll('http://127.0.0.1:7070', stack.brokerUrl)
    const env = { HOME: home, PATH: `${dirname(resolve(binary))}:${process.env.PATH}`, BOXOFFICE_API_KEY: API_KEY }
    const { code, output } = await runToEnd('sh', ['-ec', commands], { cwd: home, env })
    const missing = EXPECTED.filter((text) => !output.includes(text))
    if (code !== 0 || missing.length > 0) throw new Error(`${mode}: exit code ${code}, without ${JSON.stringify(missing)}:\n${output}`)
    process.stdout.write(`${mode}: passed\n`)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
