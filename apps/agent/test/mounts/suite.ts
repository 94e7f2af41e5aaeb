import { readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { planMounts } from '../../src/mounts/plan.ts'
import { createMountPolicy } from '../../src/mounts/policy.ts'
import type { Provider } from '../../src/sandbox/provider.ts'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import { run } from '../host/support/exec.ts'
import { Host, MOUNT_ROOT, type OpenProvider } from '../host/support/host.ts'
import { HostDirectories, requestFor, USER, type Wanted } from './support.ts'

/** What every provider that can mount directories of the host does the same. */
export const mountsSuite = (open: OpenProvider): void => {
  let host: Host
  let directories: HostDirectories
  /** What the provider was asked to make. */
  let asked: string[]
  beforeEach(async () => {
    asked = []
    host = await Host.start(async (...where) => recording(await open(...where)))
    directories = await HostDirectories.make()
  })
  afterEach(async () => {
    await host.close()
    await directories[Symbol.asyncDispose]()
  })

  const recording = (provider: Provider): Provider => ({
    ...provider,
    sandboxes: {
      ...provider.sandboxes,
      create: (id, ...rest) => {
        asked.push(id)
        return provider.sandboxes.create(id, ...rest)
      },
    },
  })
  const ensure = async (session: string, wanted: Wanted): Promise<LiveSandbox> =>
    host.find((await host.manager.ensureForSession(session, requestFor(wanted))).sandbox_id)
  const says = async (sandbox: LiveSandbox, command: string): Promise<string> => (await run(sandbox, command)).stdout.trim()

  describe('the workspace', () => {
    test('[0-23] is the host directory, seen from both sides, under both names', async () => {
      const workspace = await directories.add('work')
      const sandbox = await ensure('s', { workspace_host_path: workspace })
      expect(await says(sandbox, 'cat name; echo made > made; cat /app/made')).toBe('workmade')
      expect(await readFile(join(workspace, 'made'), 'utf8')).toBe('made\n')
      await writeFile(join(workspace, 'later'), 'from the host')
      expect(await says(sandbox, 'cat /workspace/later')).toBe('from the host')
    })

    test('[0-23] stays when the sandbox goes', async () => {
      const workspace = await directories.add('work')
      const sandbox = await ensure('s', { workspace_host_path: workspace })
      await run(sandbox, 'echo kept > kept')
      await host.manager.destroy(sandbox.id, 'released')
      expect(await readFile(join(workspace, 'kept'), 'utf8')).toBe('kept\n')
      expect(await host.leftovers()).toEqual([])
    })

    test.runIf(process.getuid?.() === 0)('[0-23] its owner is who the sandbox runs as', async () => {
      const workspace = await directories.add('work')
      const sandbox = await ensure('s', { workspace_host_path: workspace })
      expect(sandbox.file).toMatchObject({ uid: USER, gid: USER })
      await run(sandbox, 'touch made')
      expect(await stat(join(workspace, 'made'))).toMatchObject({ uid: USER })
    })

    test('[0-26, 2-115] is read-only if it is said to be, and the sandbox’s own with none', async () => {
      const workspace = await directories.add('work')
      const readOnly = await ensure('ro', { workspace_host_path: workspace, workspace_mode: 'ro' })
      expect(await says(readOnly, 'cat name; touch made && echo written; touch /app/made && echo written')).toBe('work')
      const none = await ensure('none', { workspace_host_path: workspace, workspace_mode: 'none' })
      expect(await says(none, 'ls; touch made && echo written')).toBe('written')
      expect(await says(none, `cat ${workspace}/name /workspace/name; echo end`)).toBe('end')
    })

    test('[1-21] /app is what the image has there if the profile says so', async () => {
      const sandbox = await ensure('s', { profile: { app_alias: false } })
      expect(await says(sandbox, 'touch there; ls /app 2>/dev/null')).toBe('')
    })

    test('[2-05] the profile says how a sandbox is kept in; another way is refused', async () => {
      const other = host.provider.capabilities.isolation === 'container' ? 'bubblewrap' : 'container'
      await expect(ensure('s', { profile: { isolation: other } })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
      expect(asked).toEqual([])
    })

    test.runIf(process.getuid?.() === 0)('[2-03] the profile’s user is who runs, outside and inside', async () => {
      const sandbox = await ensure('s', { profile: { user: '4321:4322' } })
      await run(sandbox, 'touch made')
      expect(await stat(join(host.dataDirectory, 'workspaces', sandbox.id, 'made'))).toMatchObject({ uid: 4321, gid: 4322 })
    })
  })

  describe('further mounts', () => {
    test('[0-25, 0-27, 0-28] are there beside the workspace, those below it under both of its names', async () => {
      const [a, b, data] = await Promise.all(['a', 'b', 'data'].map((name) => directories.add(name, { mode: 0o777 })))
      const sandbox = await ensure('s', {
        mounts: [
          { host_path: a as string, mount_path: '/workspace/.skills/a' },
          { host_path: b as string, mount_path: '/workspace/.skills/b', mode: 'ro' },
          { host_path: data as string, mount_path: '/data' },
        ],
      })
      const shown = 'for at in /workspace/.skills/a /app/.skills/a /workspace/.skills/b /app/.skills/b /data; do cat $at/name; echo; done'
      expect(await says(sandbox, shown)).toBe('a\na\nb\nb\ndata')
      expect(
        await says(sandbox, 'echo 1 > /app/.skills/a/made; cat /workspace/.skills/a/made; echo 2 > .skills/b/made; echo 3 > /data/made'),
      ).toBe('1')
      expect(await readFile(join(data as string, 'made'), 'utf8')).toBe('3\n')
      await expect(stat(join(b as string, 'made'))).rejects.toThrow('ENOENT')
      // One for the workspace, N for the mounts, and what belongs to the product.
      const lines = (await says(sandbox, "cut -d' ' -f5 /proc/self/mountinfo | grep -E '^/(workspace|app|data)'")).split('\n')
      const skills = ['/workspace/.skills/a', '/app/.skills/a', '/workspace/.skills/b', '/app/.skills/b']
      expect(lines.sort()).toEqual(['/workspace', '/app', '/data', ...skills].sort())
    })

    test('[0-26] none mounts nothing', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const sandbox = await ensure('s', { mounts: [{ host_path: a, mount_path: '/data', mode: 'none' }] })
      expect(await says(sandbox, 'cat /data/name; grep -c " /data " /proc/self/mountinfo')).toBe('0')
    })

    test('[0-35] one that is not there and need not be is left out', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const missing = join(directories.base, 'missing')
      const mounts = [
        { host_path: missing, mount_path: '/missing', optional: true },
        { host_path: a, mount_path: '/data' },
      ]
      expect(await says(await ensure('s', { mounts }), 'cat /data/name; ls -d /missing')).toBe('a')
      await expect(ensure('t', { mounts: [{ host_path: missing, mount_path: '/missing' }] })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringContaining('host_path must point to an existing directory on the host'),
      })
    })

    test('[0-25] a mount can lie in another one', async () => {
      const [outer, inner] = await Promise.all(['outer', 'inner'].map((name) => directories.add(name, { mode: 0o777 })))
      const mounts = [
        { host_path: outer as string, mount_path: '/data' },
        { host_path: inner as string, mount_path: '/data/in' },
      ]
      expect(await says(await ensure('s', { mounts }), 'cat /data/name /data/in/name')).toBe('outerinner')
    })

    test('[0-25, 2-110] a link that a sandbox has put where a mount is to lie is not followed', async () => {
      const workspace = await directories.add('work')
      const [skill, target] = await Promise.all(['skill', 'target'].map((name) => directories.add(name, { mode: 0o777 })))
      await symlink(target as string, join(workspace, '.skills'))
      const mounts = [{ host_path: skill as string, mount_path: '/workspace/.skills/a' }]
      await expect(ensure('s', { workspace_host_path: workspace, mounts })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringMatching(/^mounts\.0: mount_path cannot be used: \.skills\/a is not a directory but a link/),
      })
      await expect(stat(join(target as string, 'a'))).rejects.toThrow('ENOENT')
      expect(await host.leftovers()).toEqual([])
    })

    test('[0-25] the same place twice is refused, also by its other name', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const mounts = ['/workspace/x', '/app/x'].map((mount_path) => ({ host_path: a, mount_path }))
      await expect(ensure('s', { mounts })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringContaining('given twice'),
      })
    })
  })

  describe('refusals', () => {
    test.each(['/etc', '/', '/var', '/var/run/docker.sock'])('[0-36, 2-110, 2-111, 2-112] %s, before any engine is asked', async (path) => {
      const refused = { code: 'INVALID_REQUEST', message: expect.stringContaining('host_path is blocked') }
      await expect(ensure('s', { mounts: [{ host_path: path, mount_path: '/data', mode: 'ro', skip_roots: true }] })).rejects.toMatchObject(
        refused,
      )
      await expect(ensure('s', { workspace_host_path: path })).rejects.toMatchObject(refused)
      await expect(ensure('s', { workspace_host_path: path, workspace_mode: 'none' })).rejects.toMatchObject(refused)
      expect(asked).toEqual([])
      expect(await host.leftovers()).toEqual([])
    })

    test('[0-36, 2-110, 2-112] the data directory of the agent, and what a link makes of it', async () => {
      await symlink(host.dataDirectory, join(directories.base, 'link'))
      for (const path of [host.dataDirectory, join(host.dataDirectory, 'workspaces'), join(directories.base, 'link')])
        await expect(ensure('s', { mounts: [{ host_path: path, mount_path: '/data', skip_roots: true }] })).rejects.toThrow(/blocked/)
      expect(asked).toEqual([])
    })

    test('[2-96, 2-113] outside of the roots only an administrator’s', async () => {
      const mount = { host_path: '/usr/share', mount_path: '/data', mode: 'ro' } as const
      await expect(ensure('s', { mounts: [mount] })).rejects.toThrow(`host_path is outside allowed_mount_roots: ${MOUNT_ROOT}`)
      expect(asked).toEqual([])
      expect(await says(await ensure('s', { mounts: [{ ...mount, skip_roots: true }] }), 'ls /data | wc -l')).not.toBe('0')
    })

    test.runIf(process.getuid?.() === 0)('[0-29, 2-117] what the sandbox’s user could not write, naming owner and uid', async () => {
      const skill = await directories.add('skill', { owner: 0 })
      const mounts = [{ host_path: skill, mount_path: '/workspace/.skills/a' }]
      await expect(ensure('s', { mounts })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringMatching(
          /^mounts\.0: .*skill belongs to root \(uid 0\), and the sandbox runs as uid 2\d{9}, which cannot write/,
        ),
      })
      await expect(ensure('s', { workspace_host_path: skill })).rejects.toThrow(/workspace_host_path: .* belongs to root/)
      expect(asked).toEqual([])
      expect(await host.leftovers()).toEqual([])
      const readOnly = await ensure('s', { mounts: mounts.map((mount) => ({ ...mount, mode: 'ro' as const })) })
      expect(await says(readOnly, 'cat .skills/a/name')).toBe('skill')
    })
  })

  describe('other mounts for a live session', () => {
    test('[0-34, C-23] the sandbox is made anew under its id, one generation on, with its files', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const first = await ensure('s', {})
      await run(first, 'echo kept > kept')
      const ends: unknown[] = []
      first.onEnd((end) => ends.push(end))
      const second = await ensure('s', { mounts: [{ host_path: a, mount_path: '/data' }] })
      expect(ends).toEqual([{ lost: true, reason: 'remade' }])
      expect({ id: second.id, session: second.sessionId, generation: second.generation }).toEqual({
        id: first.id,
        session: 's',
        generation: 2,
      })
      expect(await says(second, 'cat kept /data/name')).toBe('kept\na')
      expect(host.manager.inventory.reports()).toHaveLength(1)
      const third = await ensure('s', {})
      expect(third.generation).toBe(3)
      expect(await says(third, 'cat kept; ls -d /data')).toBe('kept')
    })

    test('[0-34] equal ones use it again', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const wanted = () => ({ mounts: [{ host_path: a, mount_path: '/data' }] })
      const first = await ensure('s', wanted())
      expect(await ensure('s', wanted())).toBe(first)
      expect(asked).toHaveLength(1)
    })

    test('[0-21, 0-34] fifty at once make it anew once', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      await ensure('s', {})
      const all = await Promise.all(Array.from({ length: 50 }, () => ensure('s', { mounts: [{ host_path: a, mount_path: '/data' }] })))
      expect(new Set(all.map(({ generation }) => generation))).toEqual(new Set([2]))
      expect(asked).toHaveLength(2)
    })

    test('[0-34, 2-112] a refusal leaves it as it is', async () => {
      const first = await ensure('s', {})
      const root = await directories.add('root', { owner: 0 })
      await expect(ensure('s', { mounts: [{ host_path: '/etc', mount_path: '/data' }] })).rejects.toThrow(/blocked/)
      if (process.getuid?.() === 0)
        await expect(ensure('s', { mounts: [{ host_path: root, mount_path: '/data' }] })).rejects.toThrow(/belongs to root/)
      expect(await ensure('s', {})).toBe(first)
      expect(await says(first, 'echo there')).toBe('there')
    })

    test('[0-34] it keeps its mounts over a stop and a restart of the agent', async () => {
      const a = await directories.add('a', { mode: 0o777 })
      const wanted = { mounts: [{ host_path: a, mount_path: '/data' }] }
      const { id } = await ensure('s', wanted)
      await host.manager.suspend(id, 'stop')
      await host.manager.resume(id)
      expect(await says(host.find(id), 'cat /data/name')).toBe('a')
      host = await host.restart()
      await host.recovery.settle([{ sandbox_id: id, action: 'keep' }])
      await host.find(id).ready(AbortSignal.timeout(60_000))
      expect(await says(await ensure('s', wanted), 'cat /data/name')).toBe('a')
      expect(host.find(id).generation).toBe(1)
    })

    test('[0-34] a workspace of the host can come and go; the sandbox’s own waits', async () => {
      const workspace = await directories.add('work')
      await run(await ensure('s', {}), 'echo own > own')
      expect(await says(await ensure('s', { workspace_host_path: workspace }), 'cat name; ls own')).toBe('work')
      expect(await says(await ensure('s', {}), 'cat own; ls name')).toBe('own')
    })
  })

  test('[0-23, 2-113] a default workspace needs no root, and is not had with none', async () => {
    // Made by hand: its setting is the agent's, and the same for all of its sandboxes.
    const work = await directories.add('work')
    const policy = await createMountPolicy({ allowedRoots: [], blocked: [] })
    const plan = (wanted: Wanted) =>
      planMounts(requestFor(wanted), { policy, defaultHostWorkspace: work, appAlias: true, log: { warn: () => {} } as never })
    expect((await plan({})).workspace).toEqual({ source: work, readOnly: false })
    expect((await plan({ workspace_mode: 'ro' })).workspace).toEqual({ source: work, readOnly: true })
    expect((await plan({ workspace_mode: 'none' })).workspace).toBeNull()
  })

  test('[2-119, 0-55] what a workspace takes is told, while a scan of it holds up nobody', async () => {
    const sandbox = await ensure('s', {})
    await run(sandbox, 'head -c 3000000 /dev/zero > big; mkdir d; ln -s / d/root; truncate -s 1G sparse')
    const { bytes, entries } = await host.manager.workspaces.usage(sandbox.id, 100)
    expect(entries).toBe(4)
    expect(bytes).toBeGreaterThanOrEqual(2_900_000)
    expect(bytes).toBeLessThan(4_000_000)
    expect((await host.manager.workspaces.usage(sandbox.id, 2)).entries).toBe(3)
  })
}
