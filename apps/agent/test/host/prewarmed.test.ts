import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createLayout } from '../../src/data-dir/layout.ts'
import { createUids } from '../../src/data-dir/uids.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import type { Provider } from '../../src/sandbox/provider.ts'
import { createPrewarmedSandboxes } from '../../src/sandboxes/provision/prewarmed.ts'
import { processesWith } from '../support/processes.ts'
import { run } from './support/exec.ts'
import { Host, type OpenProvider, silent } from './support/host.ts'

const openLocal: OpenProvider = ({ path, installId }) =>
  createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent })

const begin = () => Host.start(openLocal)

const names = ({ dataDirectory }: Host): Promise<string[]> => readdir(join(dataDirectory, 'prepared'))

/** Resolves with the ids when the number is made up and stays so. */
const filled = async (host: Host): Promise<string[]> => {
  await expect.poll(async () => (await names(host)).length, { timeout: 60_000 }).toBe(16)
  // The last one is in its place before it is complete.
  const complete = async (id: string) => (await readdir(join(host.dataDirectory, 'prepared', id))).sort().join()
  await expect
    .poll(async () => new Set(await Promise.all((await names(host)).map(complete))), { timeout: 60_000 })
    .toEqual(new Set(['link,local.json,record.json,sandbox.log,workspace']))
  return names(host)
}

/** Processes that name one of these sandboxes: those that wait to become one. */
const waitingFor = (ids: readonly string[]): number[] => ids.flatMap(processesWith)

const groupsOf = ({ installId }: Host): string[] => {
  const parent = ['/sys/fs/cgroup/pids', '/sys/fs/cgroup']
    .map((root) => join(root, 'boxoffice', installId))
    .find((path) => existsSync(path))
  return parent === undefined
    ? []
    : readdirSync(parent, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
}

// Whoever is not root prepares less.
describe.runIf(process.getuid?.() === 0)('what is prewarmed', () => {
  test('becomes the next sandboxes, each with a user of its own, and is made up again', async () => {
    await using host = await begin()
    expect(await names(host)).toEqual([])
    await host.ensure('first')
    const before = await filled(host)
    const sandboxes = await Promise.all(Array.from({ length: 20 }, (_, n) => host.ensure(`s${n}`)))
    const ids = sandboxes.map(({ id }) => id)
    // The last one may not have been ready yet.
    expect(before.filter((id) => !ids.includes(id)).length).toBeLessThanOrEqual(1)
    expect(new Set(sandboxes.map(({ file }) => file.uid)).size).toBe(20)
    for (const { id, file } of sandboxes)
      expect(await stat(join(host.dataDirectory, 'workspaces', id))).toMatchObject({ uid: file.uid, gid: file.gid, mode: 0o040700 })
    const said = await Promise.all(sandboxes.map((sandbox) => run(sandbox, `echo ${sandbox.id} > own; cat own; ls | wc -l`)))
    expect(said.map(({ stdout }) => stdout)).toEqual(ids.map((id) => `${id}\n1\n`))
    await filled(host)
  })

  test('is not taken for a workspace that is there, and the next agent begins without it', async () => {
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
    await expect.poll(() => waitingFor(ids)).toHaveLength(16)
    await using next = await host.restart()
    await expect.poll(() => waitingFor(ids)).toEqual([])
    expect(await run(next.find(sandbox.id), 'echo here')).toMatchObject({ stdout: 'here\n' })
  })

  test('one that cannot be used ends, and the session gets another', async () => {
    await using host = await begin()
    await host.ensure('first')
    const ids = await filled(host)
    // What is written there, and cannot be.
    for (const id of ids) {
      await rm(join(host.dataDirectory, 'prepared', id, 'record.json'))
      await mkdir(join(host.dataDirectory, 'prepared', id, 'record.json'))
    }
    for (const _ of ids) await expect(host.ensure('second')).rejects.toThrow('EISDIR')
    await expect.poll(() => waitingFor(ids), { timeout: 60_000 }).toEqual([])
    await expect.poll(() => groupsOf(host).filter((name) => ids.includes(name)), { timeout: 60_000 }).toEqual([])
    const next = await host.ensure('second')
    expect(await run(next, 'echo works')).toMatchObject({ stdout: 'works\n' })
  })

  test('a step of it that fails leaves nothing of the others', async () => {
    const directory = await mkdtemp('/tmp/bxp-')
    const layout = await createLayout(directory)
    const uids = createUids(1)
    const discarded: string[] = []
    const tried: { id: string; uid: number; socket: string }[] = []
    const prewarm = {
      async make(id: string, { uid, directory: at }: { uid: number; directory: string }) {
        tried.push({ id, uid, socket: join(at, 'link', 'link.sock') })
        expect(existsSync(join(at, 'link', 'link.sock'))).toBe(true)
        throw new Error('no room')
      },
      discard: (id: string) => discarded.push(id),
    }
    const provider = { prewarm } as unknown as Provider
    const prewarmed = createPrewarmedSandboxes({ provider: () => provider, layout, uids, supervisorPath: '/none', log: silent })
    prewarmed.refill()
    await expect.poll(() => tried.length).toBe(1)
    await expect.poll(() => readdir(join(directory, 'prepared'))).toEqual([])
    expect(discarded).toEqual(tried.map(({ id }) => id))
    expect(readFileSync('/proc/net/unix', 'utf8')).not.toContain(tried[0]?.socket)
    expect(prewarmed.take()).toBeUndefined()
    await prewarmed.close()
    await layout.close()
    expect((await readdir(directory)).sort()).toEqual(['sandboxes', 'workspaces'])
    await rm(directory, { recursive: true })
  })

  test('nothing is, where it could not be moved: workspaces on a mount of their own', async () => {
    const directory = await mkdtemp('/tmp/bxm-')
    const elsewhere = await mkdtemp('/tmp/bxm-')
    await mkdir(join(directory, 'workspaces'))
    const mounted = join(directory, 'workspaces')
    execFileSync('mount', ['--bind', elsewhere, mounted])
    onTestFinished(async () => {
      if (readFileSync('/proc/mounts', 'utf8').includes(mounted)) execFileSync('umount', ['--lazy', mounted])
      await rm(elsewhere, { recursive: true })
    })
    await using host = await Host.start(openLocal, directory)
    const [one, other] = [await host.ensure('one'), await host.ensure('other')]
    await run(one, 'echo mine > file')
    expect(await run(other, 'ls')).toMatchObject({ stdout: '' })
    expect(await readFile(join(elsewhere, one.id, 'file'), 'utf8')).toBe('mine\n')
    expect(await names(host)).toEqual([])
    await host.manager.close({ destroyAll: true })
    expect(await readdir(elsewhere)).toEqual([])
    execFileSync('umount', [mounted])
  })
})
