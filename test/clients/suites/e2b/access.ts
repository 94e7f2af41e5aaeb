import { connect } from '@boxoffice/client'
import { AuthenticationError, Sandbox } from 'e2b'
import { expect, test } from 'vitest'
import type { E2bStand } from './stand.ts'

/** Who may use a sandbox of E2B's SDK. */
export const accessCases = (stand: E2bStand): void => {
  test('a credential that may not run commands writes to none that another one reads, and names no variables', async () => {
    const command = await stand.shared.commands.run('cat', { background: true, stdin: true })
    const apiKey = await stand.newKey({ principal: 'reader', role: 'operator', capabilities: ['fs_read'] })
    const reader = await Sandbox.connect(stand.shared.sandboxId, { ...stand.at(), apiKey })
    await reader.files.list('.')
    await expect(reader.commands.sendStdin(command.pid, 'theirs')).rejects.toThrow(/exec not granted/)
    await expect(reader.commands.closeStdin(command.pid)).rejects.toThrow(/exec not granted/)
    await expect(Sandbox.create({ ...stand.at(), apiKey, envs: { PATH: '/theirs' } })).rejects.toThrow(/envs: .* may run no command/)
    await stand.shared.commands.sendStdin(command.pid, 'own')
    await command.closeStdin()
    expect((await command.wait()).stdout).toBe('own')
  })

  test('an access token opens its own sandbox only', async () => {
    const other = await Sandbox.create(stand.at())
    const headers = { 'e2b-sandbox-id': other.sandboxId }
    expect((await stand.envd('/files?path=x', { headers })).status).toBe(401)
    expect((await stand.envd('/files?path=x', { headers: { 'x-access-token': 'none' } })).status).toBe(401)
    await other.kill()
    expect((await stand.envd('/health', { headers })).status).toBe(502)
    await expect(Sandbox.create({ ...stand.at(), apiKey: 'e2b_0000000000000000000000000000000000000000' })).rejects.toBeInstanceOf(
      AuthenticationError,
    )
  })

  test('[C-57] a member that is removed is refused, and served at once when it is back', async () => {
    const [alice, bob] = [await stand.newKey({ principal: 'alice', role: 'user' }), await stand.newKey({ principal: 'bob', role: 'user' })]
    const thread = { thread_id: 'with-bob' }
    const made = await stand.control('POST', '/sandbox/sessions', { ...thread, mode: 'ensure', members: ['bob'] }, alice)
    const { session_id } = (await made.json()) as { session_id: string }
    const setMembers = async (principals: string[]) =>
      expect((await stand.control('PUT', `/sandbox/sessions/${session_id}/members`, { principals }, alice)).status).toBe(200)
    const direct = await connect(stand.stack.brokerUrl, { apiKey: bob }).session('with-bob')
    const before = await Sandbox.create({ ...stand.at(), apiKey: bob, metadata: thread })
    expect(await before.files.list('.')).toEqual([])
    await setMembers([])
    await expect(before.files.list('.')).rejects.toThrow(/may not use the sandbox any more/)
    // The agent has heard of it as well, so that it holds the tokens of before to it.
    await expect
      .poll(() =>
        direct.files.list().then(
          () => 'listed',
          () => 'refused',
        ),
      )
      .toBe('refused')
    await setMembers(['bob'])
    const again = await Sandbox.create({ ...stand.at(), apiKey: bob, metadata: thread })
    expect(await again.files.list('.')).toEqual([])
    expect(await again.commands.run('echo back')).toMatchObject({ stdout: 'back\n' })
    await expect(before.files.list('.')).rejects.toThrow(/may not use the sandbox any more/)
  })
}
