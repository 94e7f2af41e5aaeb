import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { Provider, SandboxHandle } from '../../../src/sandbox/provider.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { dialPort, listeningPorts } from '../../../src/supervisor/tunnel.ts'
import { run, start } from '../../host/support/exec.ts'
import { Host, type Kind, type OpenProvider, processesOf, request } from '../../host/support/host.ts'

export type Exam = {
  kind: Kind
  open: OpenProvider
  /** How often to create and destroy in the test that counts what is left. */
  cycles: number
  /** Ends the sandbox as an accident would: the engine is not asked by the provider. */
  accident: (host: Host, sandbox: LiveSandbox) => Promise<void>
  /** What the engine itself still has of this installation, beyond files. */
  remains: (host: Host) => Promise<string[]>
}

const handleOf = async (host: Host, id: string): Promise<SandboxHandle | undefined> => {
  for await (const handle of host.provider.sandboxes.list()) if (handle.id === id) return handle
  return undefined
}

/** What a provider says that it cannot do is not asked of it; that it refuses it is. */
const canFreeze = ({ capabilities }: Provider): boolean => capabilities.suspend.includes('freeze')

/** The exam of every provider: what is written once above it must work the same in each. */
export const providerSuite = ({ kind, open, cycles, accident, remains }: Exam): void => {
  let host: Host | undefined
  const begin = async (): Promise<Host> => {
    host = await Host.start(open)
    return host
  }
  afterEach(async () => {
    await host?.close()
    host = undefined
  })

  /** Waits, because a provider may be making at that moment what the next sandbox will need. */
  const nothingRemains = (host: Host) => expect.poll(() => remains(host)).toEqual([])

  describe('life of a sandbox', () => {
    test('starts with its supervisor linked, and runs commands in its workspace', async () => {
      const sandbox = await (await begin()).ensure('s1')
      expect(sandbox.state).toBe('running')
      const ran = await run(sandbox, 'pwd; echo hello > file; cat file; echo oops >&2; exit 3')
      expect(ran).toMatchObject({ stdout: `${sandbox.workspacePath}\nhello\n`, stderr: 'oops\n', code: 3, reason: 'exited' })
    })

    test('is listed and inspected while it is there, and not afterwards', async () => {
      const { provider, manager, ...rest } = await begin()
      const sandbox = await Object.assign(host as Host, rest).ensure('s1')
      // An engine may learn later than the supervisor that it runs.
      const running = { id: sandbox.id, state: 'running', profileHash: sandbox.file.profile_hash }
      await expect.poll(() => handleOf(host as Host, sandbox.id)).toMatchObject(running)
      const handle = await handleOf(host as Host, sandbox.id)
      expect(await provider.sandboxes.inspect(handle as SandboxHandle)).toMatchObject({ state: 'running' })
      await manager.destroy(sandbox.id, 'released')
      expect(await handleOf(host as Host, sandbox.id)).toBeUndefined()
      expect(await provider.sandboxes.inspect(handle as SandboxHandle)).toBeUndefined()
    })

    test('a destroy leaves nothing, also the second time', async () => {
      const { manager, provider } = await begin()
      const sandbox = await (host as Host).ensure('s1')
      await start(sandbox.link, 'setsid sleep 1000 & sleep 1000')
      const handle = await handleOf(host as Host, sandbox.id)
      await manager.destroy(sandbox.id, 'released')
      await manager.destroy(sandbox.id, 'released')
      await provider.sandboxes.destroy(handle as SandboxHandle)
      expect(await (host as Host).leftovers()).toEqual([])
      await nothingRemains(host as Host)
      if (sandbox.file.uid !== process.getuid?.()) await expect.poll(() => processesOf(sandbox.file.uid)).toEqual([])
    })

    test('a freeze holds processes still and a wake lets them go on', async () => {
      const { manager, provider } = await begin()
      const sandbox = await (host as Host).ensure('s1')
      if (!canFreeze(provider)) {
        await expect(manager.suspend(sandbox.id, 'freeze')).rejects.toMatchObject({ code: 'UNSUPPORTED' })
        expect(sandbox.state).toBe('running')
        return
      }
      const counter = await start(sandbox.link, 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done', { detach: true })
      await counter.outputMatches(/^3$/m)
      expect(await manager.suspend(sandbox.id, 'freeze')).toMatchObject({ state: 'frozen' })
      expect(await handleOf(host as Host, sandbox.id)).toMatchObject({ state: 'frozen' })
      await sandbox.ready(AbortSignal.timeout(60_000))
      expect(sandbox.state).toBe('running')
      expect(await run(sandbox, 'echo awake')).toMatchObject({ stdout: 'awake\n' })
      const { processes } = (await sandbox.link.call('list', {})) as { processes: { id: string; state: string }[] }
      expect(processes.find(({ id }) => id === counter.id)).toMatchObject({ state: 'running' })
    })

    test('a stop ends processes with that cause, keeps files, and any request wakes it', async () => {
      const { manager, provider } = await begin()
      const sandbox = await (host as Host).ensure('s1')
      await run(sandbox, 'echo kept > note')
      const sleeper = await start(sandbox.link, 'sleep 1000', { detach: true })
      if (canFreeze(provider)) await manager.suspend(sandbox.id, 'freeze')
      expect(await manager.suspend(sandbox.id, 'stop')).toMatchObject({ state: 'stopped' })
      expect(await sleeper.ended).toMatchObject({ reason: 'killed' })
      expect(await handleOf(host as Host, sandbox.id)).toMatchObject({ state: 'stopped' })
      await sandbox.ready(AbortSignal.timeout(60_000))
      expect(await run(sandbox, 'cat note')).toMatchObject({ stdout: 'kept\n' })
    })

    test('is not suspended while work runs', async () => {
      const { manager, provider } = await begin()
      const sandbox = await (host as Host).ensure('s1')
      const [mode, state] = canFreeze(provider) ? (['freeze', 'frozen'] as const) : (['stop', 'stopped'] as const)
      const done = sandbox.activity.run()
      await expect(manager.suspend(sandbox.id, mode)).rejects.toMatchObject({ code: 'BINDING_CONFLICT' })
      done()
      expect(await manager.suspend(sandbox.id, mode)).toMatchObject({ state })
    })

    test('one that dies outside is lost within five seconds, and says so', async () => {
      const { manager } = await begin()
      const sandbox = await (host as Host).ensure('s1')
      const lost = new Promise((resolve) => manager.inventory.onLost(resolve))
      const told = new Promise((resolve) => sandbox.onEnd(resolve))
      const from = performance.now()
      await accident(host as Host, sandbox)
      expect(await lost).toMatchObject({ sandbox_id: sandbox.id, session_id: 's1', state: 'lost' })
      expect(await told).toMatchObject({ lost: true })
      expect(performance.now() - from).toBeLessThan(30_000)
      await expect(sandbox.ready(AbortSignal.timeout(60_000))).rejects.toMatchObject({ code: 'SANDBOX_LOST' })
    })

    test('with the network "none" no socket but unix ones', async () => {
      const { manager } = await begin()
      const sandbox = await (host as Host).ensure('s1', { network: 'none' })
      const families = ['AF_UNIX', 'AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_PACKET', 'AF_VSOCK']
      const script = [
        'use Socket; use Errno;',
        `for (qw(${families.join(' ')})) { $f = $_ eq "AF_NETLINK" ? 16 : $_ eq "AF_PACKET" ? 17 : $_ eq "AF_VSOCK" ? 40 : Socket->can($_)->();`,
        'print "$_ ", (socket(S, $f, $f == 16 || $f == 17 ? SOCK_RAW : SOCK_STREAM, 0) ? "open" : $!{EAFNOSUPPORT} ? "refused" : $!), "\n" }',
      ].join(' ')
      const expected = families.map((family) => `${family} ${family === 'AF_UNIX' ? 'open' : 'refused'}\n`).join('')
      expect((await run(sandbox, `perl -e '${script}'`)).stdout).toBe(expected)
      expect(sandbox.network).toBe('none')
      await expect(dialPort(sandbox.link, 8000)).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining('none') })
      await expect(listeningPorts(sandbox.link)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
      await manager.suspend(sandbox.id, 'stop')
      await manager.resume(sandbox.id)
      expect((await run(sandbox, `perl -e '${script}'`)).stdout).toBe(expected)
    })
  })

  describe('sessions', () => {
    test('fifty callers at once get one sandbox', async () => {
      const { manager } = await begin()
      const records = await Promise.all(Array.from({ length: 50 }, () => manager.ensureForSession('s1', request())))
      expect(new Set(records.map(({ sandbox_id }) => sandbox_id)).size).toBe(1)
      expect(manager.inventory.reports()).toHaveLength(1)
    })

    test('two sessions have nothing of each other', async () => {
      await begin()
      const [one, other] = await Promise.all([(host as Host).ensure('s1'), (host as Host).ensure('s2')])
      await run(one, 'echo secret > file; sleep 1000 >/dev/null 2>&1 &')
      expect(await run(other, 'ls -A')).toMatchObject({ stdout: '' })
      if (kind !== 'none') expect((await run(other, 'cat /proc/[0-9]*/cmdline')).stdout).not.toContain('1000')
      if (process.getuid?.() === 0) expect(one.file.uid).not.toBe(other.file.uid)
    })

    test('[C-55] the workspace of a persistent profile outlives its sandbox and is mounted again, also by another profile', async () => {
      const { manager } = await begin()
      const one = await (host as Host).ensure('s1', { persistent: true }, 'keep-me')
      await run(one, 'echo kept > note')
      await manager.destroy(one.id, 'released')
      const other = await (host as Host).ensure('s2', {}, 'keep-me')
      expect(await run(other, 'cat note && echo more >> note && cat note')).toMatchObject({ stdout: 'kept\nkept\nmore\n' })
    })

    test('[C-55] a workspace that is kept is mounted by the next sandbox of the scope; forgotten, it is gone', async () => {
      const started = await begin()
      const { manager } = started
      const one = await started.ensure('s1', {}, 'scope')
      await run(one, 'echo kept > note')
      await manager.destroy(one.id, 'released', { keepWorkspace: true })
      expect(await started.leftovers()).toEqual(['workspaces/scope'])
      const two = await started.ensure('s2', {}, 'scope')
      expect(await run(two, 'cat note')).toMatchObject({ stdout: 'kept\n', code: 0 })
      await expect(manager.workspaces.forget('scope')).rejects.toMatchObject({ code: 'BINDING_CONFLICT' })
      await manager.destroy(two.id, 'hard_ttl') // no release: what was kept stays
      expect(await started.leftovers()).toEqual(['workspaces/scope'])
      await manager.workspaces.forget('scope')
      await manager.workspaces.forget('scope') // one that is not there is fine
      expect(await started.leftovers()).toEqual([])
      expect(await run(await started.ensure('s3', {}, 'scope'), 'ls')).toMatchObject({ stdout: '' })
    })

    test('[C-55] the next sandbox of a scope waits for the end of one whose workspace is kept, over a restart too', async () => {
      await begin()
      const one = await (host as Host).ensure('s1', {}, 'scope')
      await run(one, 'echo kept > note')
      host = await (host as Host).restart()
      const next = request({}, 'scope')
      const { sandbox_id } = await host.manager.ensureForSession('s2', { ...next, kept_sessions: ['s1'] })
      expect(host.manager.get(one.id)).toBeUndefined()
      expect(await run(host.find(sandbox_id), 'cat note')).toMatchObject({ stdout: 'kept\n' })
    })

    test('[C-55] an unwanted workspace goes before the next sandbox comes, with the one that had it mounted', async () => {
      await begin()
      const one = await (host as Host).ensure('s1', { persistent: true }, 'scope')
      await run(one, 'echo old > note')
      const next = request({ persistent: true }, 'scope')
      const { sandbox_id } = await (host as Host).manager.ensureForSession('s2', { ...next, discard_workspace: true })
      expect(await run((host as Host).find(sandbox_id), 'ls; echo new > note')).toMatchObject({ stdout: '' })
      expect((host as Host).manager.get(one.id)).toBeUndefined()
    })

    test('many made and destroyed, two at a time, leave nothing', { timeout: 300_000 }, async () => {
      const { manager } = await begin()
      const worker = async (name: string): Promise<void> => {
        for (let i = 0; i < cycles / 2; i++) {
          const { sandbox_id } = await manager.ensureForSession(`${name}${i}`, request())
          await manager.destroy(sandbox_id, 'released')
        }
      }
      await Promise.all([worker('a'), worker('b')])
      expect(manager.inventory.reports()).toEqual([])
      expect(await (host as Host).leftovers()).toEqual([])
      await nothingRemains(host as Host)
    })
  })

  describe('a restart of the agent', () => {
    test('finds sandboxes again, with their processes, and the link needs the secret', async () => {
      const before = await begin()
      const sandbox = await before.ensure('s1')
      const sleeper = await start(sandbox.link, 'sleep 1000', { detach: true })
      host = await before.restart()
      const found = host.find(sandbox.id)
      await found.ready(AbortSignal.timeout(60_000))
      expect(found.sessionId).toBe('s1')
      const { processes } = (await found.link.call('list', {})) as { processes: { id: string; state: string }[] }
      expect(processes).toMatchObject([{ id: sleeper.id, state: 'running' }])
      expect(await host.manager.ensureForSession('s1', request())).toMatchObject({ sandbox_id: sandbox.id })
    })

    /** A restart is no use of a sandbox, for which the broker would wake it. */
    const unused = { running: 0, attached: 0, idle_ms: expect.toSatisfy((idle: number) => idle > 24 * 3600 * 1000, 'long ago') }

    test('[C-53] adopts a frozen one, which has not been used by that; its supervisor dials at the wake', async () => {
      const before = await begin()
      const sandbox = await before.ensure('s1')
      await run(sandbox, 'echo kept > note')
      if (!canFreeze(before.provider)) return expect(before.provider.capabilities.suspend).toEqual(['stop'])
      await before.manager.suspend(sandbox.id, 'freeze')
      host = await before.restart()
      expect(host.manager.inventory.report(sandbox.id)).toMatchObject({ state: 'frozen', activity: unused })
      await host.find(sandbox.id).ready(AbortSignal.timeout(60_000))
      expect(await run(host.find(sandbox.id), 'cat note')).toMatchObject({ stdout: 'kept\n' })
    })

    test('[C-53] adopts a stopped one, which has not been used by that', async () => {
      const before = await begin()
      const sandbox = await before.ensure('s1')
      await run(sandbox, 'echo kept > note')
      await before.manager.suspend(sandbox.id, 'stop')
      host = await before.restart()
      expect(host.manager.inventory.report(sandbox.id)).toMatchObject({ state: 'stopped', activity: unused })
      await host.find(sandbox.id).ready(AbortSignal.timeout(60_000))
      expect(await run(host.find(sandbox.id), 'cat note')).toMatchObject({ stdout: 'kept\n' })
    })

    test('reports one that died meanwhile as lost, and removes what the broker does not keep', async () => {
      const before = await begin()
      const died = await before.ensure('s1')
      const unwanted = await before.ensure('s2')
      const stopped = new Promise((resolve) => before.manager.inventory.onLost(resolve))
      await accident(before, died)
      await stopped
      host = await before.restart()
      expect(host.manager.inventory.report(died.id)).toMatchObject({ state: 'lost', session_id: 's1' })
      await host.recovery.settle([died.id, unwanted.id].map((sandbox_id) => ({ sandbox_id, action: 'destroy' as const })))
      expect(host.manager.inventory.reports()).toEqual([])
      expect(await host.leftovers()).toEqual([])
      await nothingRemains(host)
    })
  })

  const hardening = (): void => {
    test('no rights, no way to new ones', async () => {
      const sandbox = await (await begin()).ensure('s1')
      const { stdout } = await run(sandbox, 'cat /proc/self/status')
      for (const set of ['CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) expect(stdout).toMatch(new RegExp(`^${set}:\\s+0+$`, 'm'))
      expect(stdout).toMatch(/^NoNewPrivs:\s+1$/m)
      expect(stdout).toMatch(/^Seccomp:\s+2$/m)
      expect(await run(sandbox, 'id -u')).not.toMatchObject({ stdout: '0\n' })
      expect((await run(sandbox, 'unshare -U true')).code).not.toBe(0)
    })

    test('nothing of the host but what it needs', async () => {
      const sandbox = await (await begin()).ensure('s1')
      const ran = await run(
        sandbox,
        `cat /etc/shadow ${(host as Host).dataDirectory}/install-id; ls -A /root /home ${(host as Host).dataDirectory}; ls /var/run/docker.sock`,
      )
      expect(ran.stdout.replace(/^\/\S+:$|^$/gm, '').trim()).toBe('')
      // Where something is mounted; what the root's own layers are called is the engine's business.
      const mountPoints = (await run(sandbox, 'cut -d" " -f2 /proc/mounts')).stdout
      expect(mountPoints).toContain('/workspace\n')
      expect(mountPoints).not.toMatch(/docker\.sock|containerd/)
      // Both of the product's own mounts are read-only.
      expect((await run(sandbox, 'echo x > /.boxoffice/link/x || rm -f /.boxoffice/supervisor || echo refused')).stdout).toBe('refused\n')
    })

    test('a root that cannot be written, a temporary directory that can, up to 64 MiB', async () => {
      const sandbox = await (await begin()).ensure('s1')
      expect((await run(sandbox, 'touch /x || touch /usr/x || touch /etc/x')).code).not.toBe(0)
      expect(await run(sandbox, 'printf "#!/bin/sh\\necho ran" > /tmp/p && chmod +x /tmp/p && /tmp/p')).toMatchObject({ stdout: 'ran\n' })
      expect((await run(sandbox, 'head -c 80000000 /dev/zero > /tmp/big')).code).not.toBe(0)
    })

    test('no network', async () => {
      const server = createServer((_, response) => response.end('reached')).listen(0, '127.0.0.1')
      await new Promise((resolve) => server.once('listening', resolve))
      const { port } = server.address() as AddressInfo
      const sandbox = await (await begin()).ensure('s1')
      expect((await run(sandbox, 'cat /proc/net/dev | tail -n +3 | cut -d: -f1')).stdout.trim().split(/\s+/)).toEqual(['lo'])
      const dial = await run(sandbox, `exec 3<>/dev/tcp/127.0.0.1/${port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`)
      server.close()
      expect(dial.stdout).not.toContain('reached')
    })

    test('PID 1 cannot be traced, read or killed from inside', async () => {
      const sandbox = await (await begin()).ensure('s1')
      const ran = await run(
        sandbox,
        'cat /proc/1/environ /proc/1/mem /proc/1/maps; ls -l /proc/1/fd; kill -9 1; kill -STOP 1; kill -TERM 1; kill -INT 1; kill -HUP 1; echo still',
      )
      expect(ran.stdout.replace(/^total.*\n/m, '')).toBe('still\n')
      expect(await run(sandbox, 'echo there')).toMatchObject({ stdout: 'there\n' })
    })

    test('a process that dials the link without the secret gets nowhere', async () => {
      const sandbox = await (await begin()).ensure('s1')
      const forged = JSON.stringify({ version: 1, kind: 'control', channel: 0, pid: 1 })
      const script = [
        'use Socket;',
        'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("/.boxoffice/link/link.sock")) or die "dial";',
        `$j = q(${forged}); syswrite(S, pack("VC", length($j) + 1, 0x10) . $j);`,
        '$n = sysread(S, $b, 100); print defined $n ? "got $n" : "error";',
      ].join('')
      expect((await run(sandbox, `perl -e '${script}'`)).stdout).toBe('got 0')
      expect(await run(sandbox, 'echo there')).toMatchObject({ stdout: 'there\n' })
    })

    test('[C-32] processes beyond the limit are refused, memory beyond it is killed and said to be', async () => {
      const { capabilities } = (await begin()).provider
      expect(capabilities.limits).toEqual(expect.arrayContaining(['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs']))
      const sandbox = await (host as Host).ensure('s1', { pids_limit: 24, memory_mb: 64 })
      const { stdout } = await run(sandbox, 'for i in $(seq 60); do sleep 5 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l')
      expect(Number(stdout || 0)).toBeLessThanOrEqual(25)
      const other = await (host as Host).ensure('s2', { memory_mb: 64 })
      expect(await run(other, 'exec perl -e \'$x = "a" x 200_000_000; print length $x\'')).toMatchObject({
        stdout: '',
        reason: 'oom_killed',
        oom: true,
      })
      expect(await run(other, 'echo there')).toMatchObject({ stdout: 'there\n' })
    })
  }
  // Isolation `none` promises nothing of this, and says so.
  if (kind !== 'none') describe('hardening', hardening)

  test('its own files say what it is, and nothing secret', async () => {
    const sandbox = await (await begin()).ensure('s1')
    const record: unknown = JSON.parse(await readFile(join((host as Host).dataDirectory, 'sandboxes', sandbox.id, 'record.json'), 'utf8'))
    expect(record).toMatchObject({ sandbox_id: sandbox.id, session_id: 's1', secret_hash: expect.stringMatching(/^[0-9a-f]{64}$/) })
  })
}
