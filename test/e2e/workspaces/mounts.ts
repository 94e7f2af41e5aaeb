import { chmod, chown, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'

const USER = 1234

/** A directory of the agent's host as the workspace, from the negotiation to the sandbox. */
export const mountsSuite = (provider: ProviderName): void => {
  describe(`${provider}: a directory of the host`, () => {
    let stack: Stack
    let root: string
    beforeAll(async () => {
      root = await mkdtemp('/tmp/bxo-root-')
      await chmod(root, 0o755)
      for (const name of ['one', 'two']) {
        await mkdir(join(root, name))
        if (process.getuid?.() === 0) await chown(join(root, name), USER, USER)
      }
      stack = await startStack({ provider, agentArgs: ['--allowed-host-mount-roots', root] })
    })
    afterAll(async () => {
      await stack?.[Symbol.asyncDispose]()
      await rm(root, { recursive: true, force: true })
    })

    const exec = async (grant: Grant, command: string): Promise<{ status: number; stdout: string; code: string | undefined }> => {
      const { status, body } = await dataplane(grant, 'POST', '/exec', { command })
      const { stdout = '', error } = body as { stdout?: string; error?: { code: string } }
      return { status, stdout, code: error?.code }
    }

    test('[0-23, 2-113] is the workspace of who holds an operator key', async () => {
      const grant = await brokerApi(stack.brokerUrl).ensure('mounted', { workspace: { host_path: join(root, 'one') } })
      expect(await exec(grant, 'echo made > made; pwd')).toMatchObject({ status: 200, stdout: '/workspace\n' })
      expect(await readFile(join(root, 'one', 'made'), 'utf8')).toBe('made\n')
    })

    test('[2-113] is not for other keys', async () => {
      const made = await fetch(`${stack.brokerUrl}/v1/keys`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'user', principal: 'somebody' }),
      })
      const { key } = (await made.json()) as { key: string }
      const api = brokerApi(stack.brokerUrl, key)
      const refused = await api.negotiate({ thread_id: 'theirs', mode: 'ensure', workspace: { host_path: join(root, 'one') } })
      expect(refused).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN', details: { field: 'workspace.host_path' } } } })
      expect((await api.negotiate({ thread_id: 'theirs', mode: 'get' })).status).toBe(404)
    })

    test.each([
      ['/etc', /host_path is blocked: \/etc/],
      ['/usr', /host_path is outside allowed_mount_roots: /],
      ['nothing', /host_path must point to an existing directory on the host/],
    ])('[2-110, 2-113] %s is refused in the words of the contract', async (path, message) => {
      const host_path = path.startsWith('/') ? path : join(root, path)
      const reply = await brokerApi(stack.brokerUrl).negotiate({ thread_id: `no-${path}`, mode: 'ensure', workspace: { host_path } })
      expect(reply).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST', message: expect.stringMatching(message) } } })
    })

    test('[0-34, C-23] another one for a live session: same session and sandbox, one generation on, the old token fails', async () => {
      const api = brokerApi(stack.brokerUrl)
      const ensure = (name: string) => api.ensure('changing', { workspace: { host_path: join(root, name) } })
      const first = await ensure('one')
      const again = await ensure('one')
      expect(await exec(first, 'true')).toMatchObject({ status: 200 })
      const second = await ensure('two')
      expect([again, second].map(({ session_id, sandbox }) => [session_id, sandbox.id])).toEqual([
        [first.session_id, first.sandbox.id],
        [first.session_id, first.sandbox.id],
      ])
      expect(second).toMatchObject({ binding: { generation: 2, state: 'active' } })
      expect(await exec(second, 'echo two > made; cat made')).toMatchObject({ status: 200, stdout: 'two\n' })
      expect(await readFile(join(root, 'two', 'made'), 'utf8')).toBe('two\n')
      expect(await exec(first, 'true')).toMatchObject({ status: 410, code: 'SESSION_EXPIRED' })
      const audit = (await api.get('/v1/audit?event=sandbox.session.remake')).body as { entries?: unknown[] }
      expect(JSON.stringify(audit)).toContain(first.session_id)
    })

    test('[0-34] a refusal leaves the session as it is', async () => {
      const api = brokerApi(stack.brokerUrl)
      const grant = await api.ensure('steady', { workspace: { host_path: join(root, 'one') } })
      const refused = await api.negotiate({ thread_id: 'steady', mode: 'ensure', workspace: { host_path: '/etc' } })
      expect(refused).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
      expect(await exec(grant, 'echo there')).toMatchObject({ status: 200, stdout: 'there\n' })
    })

    test('[0-28, 2-03] what the provider can and cannot is told to operators', async () => {
      const { body } = await brokerApi(stack.brokerUrl).get('/v1/agents')
      const text = JSON.stringify(body)
      expect(text).toContain('"extra_mounts":true')
      expect(text).toMatch(/"not_enforced":\[[^\]]*"workspace_disk"/)
    })
  })
}
