import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import { run } from './support/exec.ts'
import { Host, silent } from './support/host.ts'

const begin = () =>
  Host.start(({ path, installId }) => createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent }))

const names = ({ dataDirectory }: Host): Promise<string[]> => readdir(join(dataDirectory, 'prepared'))

/** Resolves with the ids when the number is made up and stays so. */
const filled = async (host: Host): Promise<string[]> => {
  await expect.poll(async () => (await names(host)).length, { timeout: 20_000 }).toBe(16)
  // The last one is in its place before it is complete.
  const complete = async (id: string) => (await readdir(join(host.dataDirectory, 'prepared', id))).sort().join()
  await expect
    .poll(async () => new Set(await Promise.all((await names(host)).map(complete))), { timeout: 20_000 })
    .toEqual(new Set(['link,local.json,record.json,sandbox.log,workspace']))
  return names(host)
}

describe('what is prepared', () => {
  test('becomes the next sandboxes, each with a user of its own, and is made up again', async () => {
    await using host = await begin()
    expect(await names(host)).toEqual([])
    await host.ensure('first')
    const before = await filled(host)
    const sandboxes = await Promise.all(Array.from({ length: 20 }, (_, n) => host.ensure(`s${n}`)))
    const ids = sandboxes.map(({ id }) => id)
    expect(before.filter((id) => !ids.includes(id))).toEqual([])
    expect(new Set(sandboxes.map(({ file }) => file.uid)).size).toBe(20)
    for (const { id, file } of sandboxes)
      expect(await stat(join(host.dataDirectory, 'workspaces', id))).toMatchObject({ uid: file.uid, gid: file.gid, mode: 0o040700 })
    const said = await Promise.all(sandboxes.map((sandbox) => run(sandbox, `echo ${sandbox.id} > own; cat own; ls | wc -l`)))
    expect(said.map(({ stdout }) => stdout)).toEqual(ids.map((id) => `${id}\n1\n`))
    expect((await filled(host)).filter((id) => before.includes(id))).toEqual([])
  })

  test('is not taken for a workspace that is there, and nothing of it stays when the agent ends', async () => {
    await using host = await begin()
    const kept = await host.ensure('kept', { persistent: true }, 'w1')
    await host.manager.destroy(kept.id, 'released', { keepWorkspace: true })
    const before = await filled(host)
    const again = await host.ensure('again', { persistent: true }, 'w1')
    expect(before).not.toContain(again.id)
    expect(again.file.uid).toBe(kept.file.uid)
    await using next = await host.restart()
    expect(await names(next)).toEqual([])
    expect(next.find(again.id).state).toBe('running')
  })

  test('whoever waits in its control group ends with the agent, a sandbox does not', async () => {
    await using host = await begin()
    const sandbox = await host.ensure('one')
    const ids = await filled(host)
    const waiting = async () =>
      (await Promise.all((await readdir('/proc')).filter((pid) => /^\d+$/.test(pid)).map(commandOf))).filter(Boolean)
    const commandOf = async (pid: string): Promise<string> => {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return ids.some((id) => command.includes(id)) ? pid : ''
    }
    expect(await waiting()).toHaveLength(16)
    await using next = await host.restart()
    expect(await waiting()).toEqual([])
    expect(await run(next.find(sandbox.id), 'echo here')).toMatchObject({ stdout: 'here\n' })
  })
})
