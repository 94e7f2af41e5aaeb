import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { guestPath } from '../../src/mounts/guest-path.ts'
import { createMountPolicy, type MountPolicy } from '../../src/mounts/policy.ts'

let base: string
let policy: MountPolicy
beforeAll(async () => {
  base = await mkdtemp('/tmp/bxo-policy-')
  for (const name of ['data/box/inner', 'data/boxer', 'state/agent', 'state/box']) await mkdir(join(base, name), { recursive: true })
  await writeFile(join(base, 'data/box/file'), '')
  await symlink('/etc', join(base, 'data/box/to-etc'))
  await symlink('/', join(base, 'data/box/to-root'))
  await symlink(join(base, 'data/boxer'), join(base, 'data/box/to-boxer'))
  await symlink(join(base, 'data/box/inner'), join(base, 'data/box/to-inner'))
  policy = await createMountPolicy({ allowedRoots: [join(base, 'data/box')], blocked: [join(base, 'state/agent')] })
})
afterAll(() => rm(base, { recursive: true, force: true }))

const resolve = (path: string, { skipRoots = false, optional = false, by = policy } = {}) =>
  by.resolve(path, { field: 'mounts.0', skipRoots, optional })
const refused = (message: RegExp | string) => ({ code: 'INVALID_REQUEST', message: expect.stringMatching(message) })

describe('host paths', () => {
  test.each([
    ...['/etc', '/proc', '/sys', '/dev', '/root', '/boot', '/run', '/var/run'],
    ...['/run/docker.sock', '/var/run/docker.sock', '/run/podman', '/var/run/podman'],
    ...['/etc/ssl', '/proc/self/root', '/dev/shm', '/run/podman/podman.sock', '/etc/', '//etc', '/./etc', '/tmp/../etc', '/etc/nothing'],
  ])('[2-110, 2-96] %s is blocked, whoever says it', async (path) => {
    await expect(resolve(path)).rejects.toMatchObject(refused(/^mounts\.0: host_path is blocked: /))
    await expect(resolve(path, { skipRoots: true })).rejects.toMatchObject(refused(/blocked/))
    await expect(resolve(path, { skipRoots: true, optional: true })).rejects.toMatchObject(refused(/blocked/))
  })

  test.each(['/', '/var', '/var/', '/tmp/..', '/.'])('[2-111] %s holds what is blocked', async (path) => {
    await expect(resolve(path, { skipRoots: true })).rejects.toMatchObject(refused(/host_path is blocked: it holds \//))
  })

  test('[2-110, 2-111] the data directory is, itself, below and above', async () => {
    for (const name of ['state/agent', 'state/agent/sandboxes', 'state', ''])
      await expect(resolve(join(base, name), { skipRoots: true })).rejects.toMatchObject(refused(/blocked/))
    expect(await resolve(join(base, 'state/box'), { skipRoots: true })).toBe(join(base, 'state/box'))
  })

  test('[2-110] a link is what it leads to', async () => {
    for (const name of ['to-etc', 'to-etc/ssl', 'to-root', 'to-root/etc'])
      await expect(resolve(join(base, 'data/box', name))).rejects.toMatchObject(refused(/blocked/))
    expect(await resolve(join(base, 'data/box/to-inner'))).toBe(join(base, 'data/box/inner'))
  })

  test('[2-110, 2-114] a name that only begins alike is another one', async () => {
    await expect(resolve('/etcetera', { skipRoots: true })).rejects.toMatchObject(
      refused('^mounts.0: host_path must point to an existing directory on the host$'),
    )
    await expect(resolve(join(base, 'data/boxer'))).rejects.toMatchObject(
      refused(`^mounts.0: host_path is outside allowed_mount_roots: ${join(base, 'data/box')}$`),
    )
    await expect(resolve(join(base, 'data/box/to-boxer'))).rejects.toMatchObject(refused('host_path is outside allowed_mount_roots: '))
  })

  test('[2-113] without roots mounting is off', async () => {
    const closed = await createMountPolicy({ allowedRoots: [], blocked: [] })
    await expect(resolve(join(base, 'data/box'), { by: closed })).rejects.toMatchObject(
      refused('host_path mounting is disabled because no allowed_mount_roots are configured'),
    )
  })

  test('[2-113] outside of the roots is refused, whether or not something is there', async () => {
    const said = refused(/host_path is outside allowed_mount_roots: /)
    await expect(resolve('/usr')).rejects.toMatchObject(said)
    await expect(resolve('/usr/there/is/nothing')).rejects.toMatchObject(said)
    await expect(resolve(join(base, 'data/box/../boxer'))).rejects.toMatchObject(said)
  })

  test('[2-113] what is not a directory is refused', async () => {
    const said = refused(/host_path must point to an existing directory on the host/)
    for (const name of ['file', 'nothing', 'file/below']) await expect(resolve(join(base, 'data/box', name))).rejects.toMatchObject(said)
  })

  test('[2-113] the roots themselves and what is below them is allowed', async () => {
    expect(await resolve(join(base, 'data/box'))).toBe(join(base, 'data/box'))
    expect(await resolve(`${join(base, 'data/box')}//inner/.`)).toBe(join(base, 'data/box/inner'))
  })

  test('[2-113] a root that is a link is where it leads', async () => {
    const linked = await createMountPolicy({ allowedRoots: [join(base, 'data/box/to-boxer')], blocked: [] })
    expect(await resolve(join(base, 'data/boxer'), { by: linked })).toBe(join(base, 'data/boxer'))
    expect(await resolve(join(base, 'data/box/to-boxer'), { by: linked })).toBe(join(base, 'data/boxer'))
  })

  test('[2-96] an administrator’s path need not be below the roots', async () => {
    expect(await resolve(join(base, 'data/boxer'), { skipRoots: true })).toBe(join(base, 'data/boxer'))
  })

  test('[0-35] what may be missing is passed over', async () => {
    expect(await resolve(join(base, 'data/box/nothing'), { optional: true })).toBeUndefined()
    await expect(resolve('/usr/nothing', { optional: true })).rejects.toMatchObject(refused(/outside/))
  })
})

describe('paths in the sandbox', () => {
  const at = (path: string, appAlias = true) => guestPath(path, { field: 'mounts.0', appAlias })

  test.each([
    ['/data', '/data'],
    ['//data/./x/', '/data/x'],
    ['/workspace/.skills/a', '/workspace/.skills/a'],
    ['/app/.skills/a', '/workspace/.skills/a'],
    ['/tmp/x', '/tmp/x'],
  ])('[0-25, 1-21] %s is %s', (given, path) => expect(at(given)).toBe(path))

  test('[1-21] /app is a directory like any other where it is no alias', () => expect(at('/app/code', false)).toBe('/app/code'))

  test.each([
    '/',
    '/workspace',
    '/app',
    '/proc',
    '/proc/1',
    '/sys/x',
    '/dev/null',
    '/.boxoffice/link',
    '/etc/ssl',
    '/usr/bin',
    '/a/../etc',
    '/..',
  ])('[0-25] %s is the sandbox’s own', (given) =>
    expect(() => at(given)).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST', message: expect.stringMatching(/^mounts\.0: mount_path /) }),
    ),
  )
})
