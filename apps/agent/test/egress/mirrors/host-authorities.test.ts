import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readHostAuthorities } from '../../../src/egress/mirrors/host-authorities.ts'
import { selfSigned } from '../support/certificates.ts'

const [ONE, TWO, THREE] = ['one', 'two', 'three'].map((name) => selfSigned(`${name}.example`).cert.trim()) as [string, string, string]

/** The authorities of a machine whose variables name files of its home, with `known` ones. */
const read = async (files: Record<string, string>, variables: Record<string, string> = {}, known: string[] = []) => {
  const home = await mkdtemp(join(tmpdir(), 'authorities-'))
  onTestFinished(() => rm(home, { recursive: true }))
  await mkdir(join(home, '.config/pip'), { recursive: true })
  for (const [path, text] of Object.entries(files)) await writeFile(join(home, path), text.replaceAll('HOME', home))
  const env = Object.fromEntries(Object.entries(variables).map(([name, file]) => [name, join(home, file)]))
  const leftOut: string[] = []
  const onLeftOut = (file: string): void => void leftOut.push(file.slice(home.length + 1))
  return {
    found: readHostAuthorities({ env, home, execPath: join(home, 'bin/node'), etc: join(home, 'all-users'), known, onLeftOut }),
    leftOut,
  }
}

test('a machine whose clients name no file has none', async () => {
  expect(await read({})).toEqual({ found: [], leftOut: [] })
})

test('authorities come from variables and files, each once, and those that are known are left out', async () => {
  const files = {
    'all.pem': `# a comment\n${ONE}\r\n\n${TWO}\n`,
    'two.pem': TWO,
    'three.pem': THREE,
    '.config/pip/pip.conf': '[global]\ncert = HOME/two.pem\n',
    '.npmrc': 'cafile=HOME/three.pem\n',
  }
  expect(await read(files, { SSL_CERT_FILE: 'all.pem', CARGO_HTTP_CAINFO: 'all.pem' }, [`${ONE}\n`])).toEqual({
    found: [TWO, THREE],
    leftOut: [],
  })
})

test('a file that is not there, or is broken, is told of, and the others count', async () => {
  const broken = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
  const variables = { PIP_CERT: 'none.pem', SSL_CERT_FILE: 'broken.pem', GIT_SSL_CAINFO: 'one.pem' }
  expect(await read({ 'broken.pem': broken, 'one.pem': ONE }, variables)).toEqual({ found: [ONE], leftOut: ['none.pem', 'broken.pem'] })
})
