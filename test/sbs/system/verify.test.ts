import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ROOT } from '../support/server.ts'

const OFFLINE = ['editable', 'cli', 'package']
/** Packing and installing moves some thousand files. */
const LONG = 600_000

test(
  '[3-45, 3-47] verify:release: linked, by both names, and from a packed tarball in an empty directory without a registry',
  async () => {
    // The fourth needs a registry and rustup's targets.
    const { stdout } = await promisify(execFile)('sh', ['deploy/package/verify.sh', ...OFFLINE], { cwd: ROOT })
    expect(stdout).toBe('verify: editable ok\nverify: cli ok\nverify: package ok\n')
  },
  LONG,
)

test('[3-47] each part of it is a script of its own', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  const parts = [...OFFLINE, 'published']
  for (const part of parts) expect(scripts[`verify:${part}`]).toBe(`sh deploy/package/verify.sh ${part}`)
  expect(scripts['verify:release']).toBe(`sh deploy/package/verify.sh ${parts.join(' ')}`)
})
