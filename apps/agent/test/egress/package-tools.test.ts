import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { egressEnvironment, PROXY } from '../../src/egress/sandbox/environment.ts'
import { TRUST_BUNDLE } from '../../src/egress/sandbox/trust-bundle.ts'
import { listening } from '../support/listening.ts'
import { PACKAGE_TOOLS } from './support/package-tools.ts'
import { ORIGIN_CERTIFICATE, PROXY_CERTIFICATE, proxies } from './support/proxy.ts'
import { runTool } from './support/run-tool.ts'
import { npmProgram, pythonLibraries, UV } from './support/toolbox.ts'
import { toyRegistries } from './support/toy-registries.ts'

const start = proxies()
const ORIGIN = 'https://origin.example'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'egress-packages-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  writeFileSync(join(home, 'ca.pem'), ORIGIN_CERTIFICATE.cert + PROXY_CERTIFICATE.cert)
  for (const directory of ['toys', 'work', 'bin']) mkdirSync(join(home, directory))
  const programs = { node: process.execPath, npm: npmProgram(), python3: '/usr/bin/python3', uv: UV }
  for (const [name, path] of Object.entries(programs)) symlinkSync(path, join(home, 'bin', name))
})

/** Tools of this machine are found by it, and none of its settings. */
const ownVariables = (): Record<string, string> => ({
  PATH: `${join(home, 'bin')}:${process.env.PATH}`,
  ...{ PIP_CONFIG_FILE: '/dev/null', PIP_FIND_LINKS: '', PIP_USER: '1', PIP_BREAK_SYSTEM_PACKAGES: '1' },
  ...{ GOPATH: join(home, 'go'), CARGO_HOME: join(home, '.cargo-home') },
  RUSTUP_HOME: process.env.RUSTUP_HOME ?? join(process.env.HOME ?? '/root', '.rustup'),
})

describe.each([
  ['carried as it is', false],
  ['opened', true],
])('by TLS that is %s', (_, opened) => {
  test.each(PACKAGE_TOOLS)('$name', async ({ name, script, says }) => {
    const registries = toyRegistries(join(home, 'toys'), ORIGIN)
    const server = await listening(createServer(ORIGIN_CERTIFICATE, registries.serve).on('upgrade', registries.upgrade))
    onTestFinished(() => server[Symbol.asyncDispose]())
    const policy = opened ? { rules: [{ host: 'origin.example' }] } : { allow: ['origin.example'] }
    const { url, decisions } = await start(policy, { ports: { 443: server.port } })
    // What a sandbox is told, with the proxy and the authorities of this test.
    const told = Object.entries(egressEnvironment()).map(([variable, value]) => [
      variable,
      value.replace(PROXY, url).replace(TRUST_BUNDLE, join(home, 'ca.pem')),
    ])
    const env = { ...Object.fromEntries(told), ...ownVariables(), ORIGIN, LIBRARIES: pythonLibraries() }
    const { status, stdout, stderr } = await runTool('sh', ['-c', script], { home, env, cwd: join(home, 'work') })
    expect(status, stderr).toBe(0)
    expect(stdout.trim().split('\n').at(-1)).toBe(says)
    expect(decisions.every(({ allowed }) => allowed) && decisions.length).toBeGreaterThan(0)
    if (name.startsWith('git')) expect(registries.pushed()).toBe('first\n')
  })
})
