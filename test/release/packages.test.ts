import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findingsOf } from '../../deploy/package/contents.ts'
import { copyDependencies } from '../../deploy/package/dependencies.ts'
import { packRelease } from '../../deploy/package/release.ts'
import { ROOT } from '../../deploy/package/stage.ts'
import { VERSION } from '../../packages/kit/src/version.ts'

const temporary = (): string => {
  const directory = mkdtempSync(join(tmpdir(), 'bxo-release-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

test('what is published is JavaScript of one version, with the supervisor of each platform as an optional package', () => {
  const directory = temporary()
  // What supervisors.sh makes takes a compiler and its targets; which bytes they are is not asked here.
  const binary = join(directory, 'supervisor')
  writeFileSync(binary, '#!/bin/sh\n')
  const tarballs = packRelease(join(directory, 'tarballs'), () => binary)
  const manifests = tarballs.map(({ path }) => {
    expect(findingsOf(path)).toEqual([])
    return JSON.parse(execFileSync('tar', ['-xzOf', path, 'package/package.json'], { encoding: 'utf8' })) as Record<string, unknown>
  })
  const library = (name: string) => ({ name: `@boxoffice/${name}`, version: VERSION, exports: expect.any(Object) })
  expect(manifests).toMatchObject([
    { name: '@boxoffice/supervisor-linux-x64', version: VERSION, os: ['linux'], cpu: ['x64'] },
    { name: '@boxoffice/supervisor-linux-arm64', version: VERSION, os: ['linux'], cpu: ['arm64'] },
    {
      name: 'boxoffice',
      version: VERSION,
      dependencies: { 'better-sqlite3': expect.stringMatching(/^\d+\.\d+\.\d+$/), ws: expect.any(String), dockerode: expect.any(String) },
      optionalDependencies: { '@boxoffice/supervisor-linux-x64': VERSION, '@boxoffice/supervisor-linux-arm64': VERSION },
    },
    library('kit'),
    library('protocol'),
    {
      ...library('client'),
      engines: { node: '>=20' },
      exports: { '.': { types: './dist/index.d.ts', node: './dist/node.js', default: './dist/index.js' } },
    },
    { ...library('mcp'), dependencies: { '@boxoffice/client': VERSION } },
    { ...library('deepagents'), peerDependencies: { deepagents: expect.any(String) } },
    { ...library('langgraph'), peerDependencies: { '@langchain/langgraph': expect.any(String) } },
  ])
})

test('files that have no place in a package are found, each by its name', () => {
  const directory = temporary()
  const put = (name: string, text: string) => writeFileSync(join(directory, name), text)
  put('package.json', '{}')
  put('a.test.js', '')
  put('paths.js', `import '${ROOT}/apps/cli/src/main.ts'`)
  put('key.txt', `-----BEGIN ${'PRIVATE KEY'}-----`)
  const tarball = join(temporary(), 'package.tgz')
  execFileSync('tar', ['-czf', tarball, '--transform', 's,^\\.,package,', '-C', directory, '.'])
  expect(findingsOf(tarball).sort()).toEqual([
    'LICENSE is missing',
    'README.md is missing',
    'a.test.js has no place there',
    'key.txt holds what looks like a secret',
    `paths.js names ${ROOT}/, which is of this machine`,
  ])
})

test('the supervisor and the changelog name the version that everything has', () => {
  expect(/^version = "(.*)"$/m.exec(readFileSync(join(ROOT, 'packages/supervisor/Cargo.toml'), 'utf8'))?.[1]).toBe(VERSION)
  expect(/^## \[(\d+\.\d+\.\d+)\]/m.exec(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8'))?.[1]).toBe(VERSION)
})

test('what is passed on keeps its license, and leaves its documents and tests behind', () => {
  const directory = temporary()
  const dependency = join(directory, 'node_modules/dependency')
  mkdirSync(join(dependency, 'test'), { recursive: true })
  const files = {
    'package.json': '{ "name": "dependency", "version": "1.2.3" }',
    'LICENSE.md': '',
    'README.md': '',
    'index.js': '',
    'test/a.js': '',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dependency, name), text)
  const to = join(directory, 'copy')
  const manifest = { name: 'own', version: '0.0.0', dependencies: { dependency: '1.2.3' } }
  expect(copyDependencies([{ directory, manifest }], to)).toEqual({ dependency: '1.2.3' })
  expect(readdirSync(join(to, 'dependency')).sort()).toEqual(['LICENSE.md', 'index.js', 'package.json'])
})

test('the tests of the supervisor for arm64 are there by the names that supervisors.sh has', () => {
  const script = readFileSync(join(ROOT, 'deploy/package/supervisors.sh'), 'utf8')
  const named = [...script.matchAll(/--test (\w+)/g)].map(([, name]) => `${name}.rs`)
  expect(named).not.toEqual([])
  expect(readdirSync(join(ROOT, 'packages/supervisor/tests'))).toEqual(expect.arrayContaining(named))
})
