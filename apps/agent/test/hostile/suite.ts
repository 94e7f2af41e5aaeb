import { randomBytes } from 'node:crypto'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { workspaceUsage } from '../../src/mounts/workspace-usage.ts'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import { type Process, type Ran, run, start } from '../host/support/exec.ts'
import { Host, type OpenProvider } from '../host/support/host.ts'
import { HostDirectories } from '../mounts/support.ts'
import { PROGRAMS, type Program, TO_THE_END } from './programs.ts'

const canary = (): string => `canary-${randomBytes(12).toString('hex')}`

/** A host with something to steal, and two sandboxes: one that is attacked from and one that is its neighbour. */
export class Scene {
  readonly host: Host
  readonly directories: HostDirectories
  readonly hostCanary = canary()
  readonly neighbourCanary = canary()
  readonly #server: Server
  #neighbour!: { sandbox: LiveSandbox; process: Process }
  #number = 0

  private constructor(host: Host, directories: HostDirectories, server: Server) {
    this.host = host
    this.directories = directories
    this.#server = server
  }

  static async make(open: OpenProvider): Promise<Scene> {
    const server = createServer((_, response) => response.end(scene.hostCanary))
    const scene = new Scene(await Host.start(open), await HostDirectories.make(), server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    await writeFile(scene.canaryPath, scene.hostCanary)
    await chmod(scene.canaryPath, 0o666)
    process.env.BXO_HOST_CANARY = scene.hostCanary
    const sandbox = await scene.host.ensure('neighbour')
    const secret = scene.neighbourCanary
    // On its disk, in shared memory, in a process' environment and arguments, in SysV memory.
    await run(sandbox, `umask 0; echo ${secret} | tee canary /tmp/canary /dev/shm/canary; chmod 666 canary`)
    const hold = `$id = shmget(0x0badcafe, 4096, 0666 | 01000); shmwrite($id, "${secret}", 0, 64); $| = 1; print "held\\n"; sleep 1000`
    const process_ = await start(sandbox.link, `exec perl -e '${hold}' ${secret}`, { env: { NEIGHBOUR_SECRET: secret } })
    await process_.outputMatches(/held/)
    scene.#neighbour = { sandbox, process: process_ }
    return scene
  }

  get canaryPath(): string {
    return join(this.directories.base, 'canary')
  }
  get neighbour(): LiveSandbox {
    return this.#neighbour.sandbox
  }

  /** In a sandbox of its own. */
  async attack({ script }: Pick<Program, 'script'>): Promise<{ sandbox: LiveSandbox; ran: Ran; told: string }> {
    const sandbox = await this.host.ensure(`attacker-${this.#number++}`, { pids_limit: 64, memory_mb: 256 })
    const env = {
      ...{ HOST_CANARY: this.canaryPath, DATA: this.host.dataDirectory, NEIGHBOUR: this.neighbour.id },
      ...{ HOST_PORT: String((this.#server.address() as AddressInfo).port), NEIGHBOUR_PID: String(process.pid) },
    }
    const ran = await (await start(sandbox.link, script, { env, timeout_ms: 40_000 })).ended
    return { sandbox, ran, told: ran.stdout + ran.stderr }
  }

  /** What the host and the neighbour had they still have, and both still work. */
  async expectUnharmed(): Promise<void> {
    expect(await readFile(this.canaryPath, 'utf8')).toBe(this.hostCanary)
    const ran = await run(this.neighbour, 'cat canary /tmp/canary; pgrep -c perl || ls /proc/[0-9]*/exe | wc -l')
    expect(ran.stdout.startsWith(`${this.neighbourCanary}\n${this.neighbourCanary}\n`)).toBe(true)
    expect(await Promise.race([this.#neighbour.process.ended, 'running'])).toBe('running')
  }

  async close(): Promise<void> {
    delete process.env.BXO_HOST_CANARY
    this.#server.close()
    await this.host.close()
    await this.directories[Symbol.asyncDispose]()
  }
}

/** Programs that want out, each in a sandbox of its own: none reads a canary, none harms, none writes where it must not. */
export const hostileSuite = (open: OpenProvider): void => {
  let scene: Scene
  beforeAll(async () => {
    scene = await Scene.make(open)
  })
  afterAll(() => scene.close())

  test('the neighbour has its canary where programs look for it', async () => {
    expect((await run(scene.neighbour, 'cat /proc/[0-9]*/environ /dev/shm/canary | tr "\\0" "\\n"')).stdout).toContain(
      scene.neighbourCanary,
    )
  })

  describe.each(PROGRAMS)('[2-117, C-79] a program that $title', ({ script, title }) => {
    test('gets nothing', { timeout: 60_000 }, async () => {
      const { sandbox, ran, told } = await scene.attack({ script })
      expect(told.split(TO_THE_END)).toHaveLength(script.split(TO_THE_END).length)
      expect(told).not.toMatch(/syntax error|unexpected end of file/)
      expect(told).not.toContain(scene.hostCanary)
      expect(told).not.toContain(scene.neighbourCanary)
      expect(told.split('\n').filter((line) => line.startsWith('written: '))).toEqual([])
      expect(ran.reason).toMatch(title.startsWith('signals') ? /^(signaled|exited)$/ : /^exited$/)
      // It has not hurt what holds it, either; and what it left for the agent leads nowhere.
      expect((await run(sandbox, 'echo there')).stdout).toBe('there\n')
      const seen = await workspaceUsage(join(scene.host.dataDirectory, 'workspaces', sandbox.id), 5000)
      // Too deep to be looked at is too many; a link that was followed would be a whole host.
      expect(seen.entries === 5001 ? title : seen.entries < 1000).toSatisfy((as) => as === true || as === 'plays tricks with names')
      await scene.expectUnharmed()
      await scene.host.manager.destroy(sandbox.id, 'released')
    })
  })
}
