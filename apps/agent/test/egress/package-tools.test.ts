import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { egressEnvironment, PROXY } from '../../src/egress/sandbox/environment.ts'
import { TRUST_BUNDLE } from '../../src/egress/sandbox/trust-bundle.ts'
import { listening } from '../support/listening.ts'
import { gitBackend } from './support/cgi.ts'
import { ORIGIN_CERTIFICATE, PROXY_CERTIFICATE, proxies } from './support/proxy.ts'
import { type Ran, runTool } from './support/run-tool.ts'

const start = proxies()
const ORIGIN = 'https://origin.example'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'egress-packages-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  writeFileSync(join(home, 'ca.pem'), ORIGIN_CERTIFICATE.cert + PROXY_CERTIFICATE.cert)
})

/** Writes files below the home, and gives where they are. */
const write = (files: Record<string, string | Buffer>): void => {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), content)
  }
}

/** Files as they are asked for by their paths; else 404. */
const serves =
  (files: Record<string, string | Buffer>): RequestListener =>
  ({ url = '' }, response) => {
    const content = files[decodeURIComponent(url.split('?')[0] ?? '')]
    response.writeHead(content === undefined ? 404 : 200, { 'content-type': url.endsWith('/') ? 'text/html' : 'application/octet-stream' })
    response.end(content)
  }

/** Runs a tool that is told of the proxy by the variables of a sandbox, with its TLS opened and not. */
const through = async (answer: RequestListener, tool: (env: Record<string, string>) => Promise<Ran>, opened: boolean): Promise<Ran> => {
  const server = await listening(createServer(ORIGIN_CERTIFICATE, answer))
  onTestFinished(() => server[Symbol.asyncDispose]())
  const policy = opened ? { rules: [{ host: 'origin.example' }] } : { allow: ['origin.example'] }
  const { url, decisions } = await start(policy, { ports: { 443: server.port } })
  const told = Object.entries(egressEnvironment()).map(([name, value]) => [
    name,
    value.replace(PROXY, url).replace(TRUST_BUNDLE, join(home, 'ca.pem')),
  ])
  const ran = await tool(Object.fromEntries(told))
  expect(ran.status, ran.stderr).toBe(0)
  expect(decisions.every(({ allowed }) => allowed) && decisions.length).toBeGreaterThan(0)
  return ran
}

const WAYS = [
  ['carried as it is', false],
  ['opened', true],
] as const

test.each(WAYS)('pip installs by TLS that is %s', async (_, opened) => {
  const info = 'toy-1.0.dist-info'
  const zip = `import zipfile; z = zipfile.ZipFile('toy-1.0-py3-none-any.whl', 'w')
z.writestr('toy.py', 'says = 42'); z.writestr('${info}/METADATA', 'Metadata-Version: 2.1\\nName: toy\\nVersion: 1.0\\n')
z.writestr('${info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); z.writestr('${info}/RECORD', '')`
  execFileSync('/usr/bin/python3', ['-c', zip], { cwd: home })
  const wheel = readFileSync(join(home, 'toy-1.0-py3-none-any.whl'))
  const files = {
    '/simple/toy/': '<a href="/files/toy-1.0-py3-none-any.whl">toy-1.0-py3-none-any.whl</a>',
    '/files/toy-1.0-py3-none-any.whl': wheel,
  }
  const args = [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--disable-pip-version-check',
    '--index-url',
    `${ORIGIN}/simple`,
    '--target',
    'out',
    'toy',
  ]
  expect(
    await through(
      serves(files),
      (env) => runTool('/usr/bin/python3', args, { home, env: { ...env, PIP_CONFIG_FILE: '/dev/null', PIP_FIND_LINKS: '' } }),
      opened,
    ),
  ).toMatchObject({ status: 0 })
  expect(readFileSync(join(home, 'out/toy.py'), 'utf8')).toBe('says = 42')
})

test.each(WAYS)('npm installs a scoped package by TLS that is %s', async (_, opened) => {
  write({ 'package/package.json': JSON.stringify({ name: '@toys/one', version: '1.0.0' }), 'package/index.js': 'module.exports = 42' })
  const tarball = execFileSync('tar', ['-cz', 'package'], { cwd: home })
  const dist = { tarball: `${ORIGIN}/one.tgz`, integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}` }
  const packument = {
    name: '@toys/one',
    'dist-tags': { latest: '1.0.0' },
    versions: { '1.0.0': { name: '@toys/one', version: '1.0.0', dist } },
  }
  const files = { '/@toys/one': JSON.stringify(packument), '/one.tgz': tarball }
  write({ 'app/package.json': '{}' })
  const args = ['install', '--registry', `${ORIGIN}/`, '--no-audit', '--no-fund', '--no-update-notifier', '@toys/one']
  await through(serves(files), (env) => runTool('/usr/bin/npm', args, { home, env, cwd: join(home, 'app') }), opened)
  expect(readFileSync(join(home, 'app/node_modules/@toys/one/index.js'), 'utf8')).toBe('module.exports = 42')
})

test.each(WAYS)('go downloads a module by TLS that is %s', async (_, opened) => {
  const zip = `import zipfile; z = zipfile.ZipFile('mod.zip', 'w')
z.writestr('example.com/toy@v1.0.0/go.mod', 'module example.com/toy\\n'); z.writestr('example.com/toy@v1.0.0/toy.go', 'package toy\\n')`
  execFileSync('/usr/bin/python3', ['-c', zip], { cwd: home })
  const at = '/example.com/toy/@v'
  const files = {
    [`${at}/list`]: 'v1.0.0\n',
    [`${at}/v1.0.0.info`]: JSON.stringify({ Version: 'v1.0.0', Time: '2026-01-01T00:00:00Z' }),
    [`${at}/v1.0.0.mod`]: 'module example.com/toy\n',
    [`${at}/v1.0.0.zip`]: readFileSync(join(home, 'mod.zip')),
  }
  write({ 'app/go.mod': 'module example.com/app\n\ngo 1.20\n' })
  const settings = {
    GOPROXY: ORIGIN,
    GONOSUMDB: '*',
    GOSUMDB: 'off',
    GOFLAGS: '-modcacherw',
    GOPATH: join(home, 'go'),
    GOTOOLCHAIN: 'local',
  }
  const tool = (env: Record<string, string>) =>
    runTool('go', ['get', 'example.com/toy'], { home, env: { ...env, ...settings }, cwd: join(home, 'app') })
  await through(serves(files), tool, opened)
  expect(readFileSync(join(home, 'app/go.mod'), 'utf8')).toContain('example.com/toy v1.0.0')
})

test.each(WAYS)('cargo fetches from a registry by TLS that is %s', async (_, opened) => {
  write({
    'toy-1.0.0/Cargo.toml': '[package]\nname = "toy"\nversion = "1.0.0"\nedition = "2021"\n',
    'toy-1.0.0/src/lib.rs': 'pub const SAYS: u8 = 42;\n',
    'app/Cargo.toml':
      '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ntoy = { version = "1", registry = "toys" }\n',
    'app/src/lib.rs': '',
    'app/.cargo/config.toml': `[registries.toys]\nindex = "sparse+${ORIGIN}/index/"\n`,
  })
  const crate = execFileSync('tar', ['-cz', 'toy-1.0.0'], { cwd: home })
  const cksum = createHash('sha256').update(crate).digest('hex')
  const files = {
    '/index/config.json': JSON.stringify({ dl: `${ORIGIN}/crates/{crate}-{version}` }),
    '/index/3/t/toy': JSON.stringify({ name: 'toy', vers: '1.0.0', deps: [], cksum, features: {}, yanked: false }),
    '/crates/toy-1.0.0': crate,
  }
  const rust = {
    CARGO_HOME: join(home, '.cargo-home'),
    RUSTUP_HOME: process.env.RUSTUP_HOME ?? join(process.env.HOME ?? '/root', '.rustup'),
  }
  const tool = (env: Record<string, string>) =>
    runTool('cargo', ['fetch', '--quiet'], { home, env: { ...env, ...rust }, cwd: join(home, 'app') })
  await through(serves(files), tool, opened)
  expect(readFileSync(join(home, 'app/Cargo.lock'), 'utf8')).toContain('name = "toy"')
})

test.each(WAYS)('git clones and pushes over https by TLS that is %s', async (_, opened) => {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: home, stdio: 'pipe' })
  git('init', '--quiet', '--bare', '--initial-branch', 'main', 'served/app.git')
  git('-C', 'served/app.git', 'config', 'http.receivepack', 'true')
  const script = `set -e; git clone --quiet ${ORIGIN}/app.git work; cd work; git config user.name a; git config user.email a@example.com
head -c 3000000 /dev/urandom > file; git add .; git commit --quiet -m first; git push --quiet origin HEAD:main`
  const tool = (env: Record<string, string>) => runTool('sh', ['-c', script], { home, env: { ...env, GIT_TERMINAL_PROMPT: '0' } })
  await through(gitBackend(join(home, 'served')), tool, opened)
  expect(git('-C', 'served/app.git', 'log', '--format=%s', 'main').toString()).toBe('first\n')
})

test.each(WAYS)('fetch of Node 24 reads by TLS that is %s', async (_, opened) => {
  const script = `fetch('${ORIGIN}/a').then((answer) => answer.text()).then(console.log)`
  const tool = (env: Record<string, string>) => runTool(process.execPath, ['-e', script], { home, env })
  expect(await through(serves({ '/a': 'read' }), tool, opened)).toMatchObject({ stdout: 'read\n' })
})
