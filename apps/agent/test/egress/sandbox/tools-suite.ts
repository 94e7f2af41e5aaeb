import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EgressPolicy } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { start } from '../../host/support/exec.ts'
import { Host, type OpenProvider, silent } from '../../host/support/host.ts'
import { HostDirectories, requestFor } from '../../mounts/support.ts'
import { type Listening, listening } from '../../support/listening.ts'
import { selfSigned } from '../support/certificates.ts'
import { PACKAGE_TOOLS } from '../support/package-tools.ts'
import { makeToolbox } from '../support/toolbox.ts'
import { GIT_TOKEN, type ToyRegistries, toyRegistries } from '../support/toy-registries.ts'

const CERTIFICATE = selfSigned('origin.test')
const TOOLS = '/opt/tools'
const MINUTES = 5 * 60_000

/** Real package tools work in a sandbox by what it is told, with their TLS carried as it is and opened, whatever the provider is. */
export const toolsSuite = (open: OpenProvider): void => {
  const packages = mkdtempSync(join(tmpdir(), 'toys-'))
  let [host, mounted]: [Host?, HostDirectories?] = []
  let server: Listening<ReturnType<typeof createServer>>
  let registries: ToyRegistries
  let toolbox: ReturnType<typeof makeToolbox>
  beforeAll(async () => {
    server = await listening(createServer(CERTIFICATE))
    registries = toyRegistries(packages, `https://origin.test:${server.port}`)
    server.server.on('request', registries.serve).on('upgrade', registries.upgrade)
    mounted = await HostDirectories.make()
    toolbox = makeToolbox(mounted.base, TOOLS)
    host = await Host.start(open, undefined, silent, {
      resolve: async () => ['127.0.0.1'],
      exceptions: [{ host: 'origin.test', port: server.port }],
      authorities: () => [CERTIFICATE.cert],
      secretsOf: async (_, names) => Object.fromEntries(names.map((name) => [name, { value: GIT_TOKEN, version: 1 }])),
    })
  }, MINUTES)
  afterAll(async () => {
    await host?.close()
    await mounted?.[Symbol.asyncDispose]()
    await server?.[Symbol.asyncDispose]()
    rmSync(packages, { recursive: true, force: true })
  }, MINUTES)

  describe.each([
    ['carried as it is', false],
    ['opened', true],
  ])('TLS that is %s', (_, isOpened) => {
    let sandbox: LiveSandbox
    beforeAll(async () => {
      if (host === undefined || mounted === undefined) return expect.fail('no host')
      const policy = isOpened ? { rules: [{ host: `origin.test:${server.port}` }] } : {}
      const request = requestFor({
        profile: { network: 'proxy', egress: EgressPolicy.parse(policy), memory_mb: 2048, pids_limit: 512 },
        mounts: [{ host_path: mounted.base, mount_path: TOOLS, mode: 'ro' }],
      })
      sandbox = host.find((await host.manager.ensureForSession(`tools-${isOpened}`, request)).sandbox_id)
    }, MINUTES)

    test.each(PACKAGE_TOOLS)(
      '$name',
      async ({ name, script, says }) => {
        const command = `PATH=${toolbox.path}:$PATH; mkdir -p '${name}' && cd '${name}' || exit 1\n${script}`
        const env = { ...sandbox.environment, ORIGIN: `https://origin.test:${server.port}`, LIBRARIES: toolbox.libraries }
        const { code, stdout, stderr } = await (await start(sandbox.link, command, { env })).ended
        expect({ code, says: stdout.trim().split('\n').at(-1), ...(code === 0 ? {} : { stderr }) }).toEqual({ code: 0, says })
      },
      MINUTES,
    )
  })

  test('what was pushed has arrived', () => {
    expect(registries.pushed()).toBe('first\nfirst\n')
  })

  test(
    'the recipe of git with a token: it clones and pushes, and the sandbox never has the token',
    async () => {
      if (host === undefined) return expect.fail('no host')
      const placeholders = [{ env: 'GH_TOKEN', secret: 'gh_token', hosts: [`origin.test:${server.port}`] }]
      const sandbox = await host.ensure('recipe-of-git', { network: 'proxy', egress: EgressPolicy.parse({ placeholders }) })
      const script = `set -e; git clone --quiet https://x-access-token:$GH_TOKEN@origin.test:${server.port}/private/app.git work; cd work
git config user.name a; git config user.email a@example.com; echo b > b; git add .; git commit --quiet -m 'with the token'; git push --quiet
env; cat .git/config`
      const { code, stdout, stderr } = await (await start(sandbox.link, script, { env: sandbox.environment ?? {} })).ended
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(registries.pushed()).toContain('with the token\n')
      expect(stdout).toMatch(/^GH_TOKEN=[0-9a-f]{40}$/m)
      expect(stdout).not.toContain(GIT_TOKEN)
    },
    MINUTES,
  )
}
