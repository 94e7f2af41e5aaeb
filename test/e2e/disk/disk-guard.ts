import { writeFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, type Reply, request } from '../support/api.ts'
import { expectRefusal } from '../support/refusal.ts'
import { makeSmallDisk, type SmallDisk } from '../support/small-disk.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

const MiB = 1024 ** 2
const DISK = { mib: 96, inodes: 20_000 }
/** What the agent keeps free: 5 %. */
const FLOOR = { bytes: (DISK.mib * MiB) / 20, inodes: DISK.inodes / 20 }
const QUOTA = 10 * MiB
/** Slow enough for a machine that is busy: three seconds of a writer take less than the floor. */
const PAUSE = 'sleep 0.07'

const isHeld = (reply: Reply, reason = 'disk_low') =>
  expect(expectRefusal(reply, 507, 'QUOTA_EXCEEDED')).toMatchObject({
    details: { reason },
    message: expect.stringMatching('on hold'),
  })

/** A command that fills the agent's file system is stopped, and nobody else is; broker and agent share the disk. */
export const diskGuardSuite = (provider: ProviderName): void => {
  describe(`${provider}: a command that fills the disk`, () => {
    let disk: SmallDisk
    let stack: Stack
    let tenant: Grant
    beforeAll(async () => {
      disk = await makeSmallDisk(DISK)
      stack = await startStack({
        provider,
        agentArgs: ['--data-dir', join(disk.path, 'agent')],
        brokerArgs: ['--data-dir', join(disk.path, 'broker')],
        config: { profiles: [{ name: 'default' }, { name: 'limited', workspace_quota_mb: QUOTA / MiB }] },
      })
      tenant = await brokerApi(stack.brokerUrl).ensure('tenant')
    })
    afterAll(async () => {
      try {
        await stack?.[Symbol.asyncDispose]()
      } finally {
        await disk?.[Symbol.asyncDispose]()
      }
    })

    const exec = (grant: Grant, command: string, fields: object = {}) => dataplane(grant, 'POST', '/exec', { command, ...fields })
    /** Begins a command that goes on for ever; its id. */
    const begin = async (grant: Grant, command: string): Promise<string> => {
      const reply = await exec(grant, command, { detach: true })
      expect(reply.status).toBe(202)
      return (reply.body as { exec_id: string }).exec_id
    }
    /** What a hold refuses at once: a command that began just before one would wait for its end. */
    const wake = (grant: Grant, id: string) => dataplane(grant, 'POST', `/execs/${id}/signal`, { signal: 'CONT' })
    const held = (grant: Grant, id: string) => eventually('the writer is held', async () => (await wake(grant, id)).status === 507)
    const kill = async (grant: Grant, id: string): Promise<void> => {
      await dataplane(grant, 'POST', `/execs/${id}/signal`, { signal: 'KILL' })
      await eventually('the writer has ended', async () => (await dataplane(grant, 'GET', `/execs/${id}`)).text.includes('"exited"'))
    }

    const expectOthersWork = async (): Promise<void> => {
      const api = brokerApi(stack.brokerUrl)
      for (let i = 0; i < 20; i++) expect((await exec(tenant, `echo ${i}`)).body).toMatchObject({ stdout: `${i}\n`, exit_code: 0 })
      expect((await api.ensure('tenant')).session_id).toBe(tenant.session_id)
      const agent = await request(`http://127.0.0.1:${stack.proxy.port}/readyz`)
      expect([agent.status, agent.body]).toMatchObject([503, { reasons: [expect.stringMatching(/^disk: /)] }])
    }

    test('is stopped below the floor, over a restart of the agent too; others go on, and so does it with room again', async () => {
      const api = brokerApi(stack.brokerUrl)
      const [writer, other] = [await api.ensure('writer'), await api.ensure('other')]
      const key = await addKey(stack)
      const fill = join(disk.path, 'fill')
      await writeFile(fill, Buffer.alloc(Math.floor(disk.freeBytes() - 1.75 * FLOOR.bytes)))
      const id = await begin(writer, `while :; do head -c 65536 /dev/zero >> data; ${PAUSE}; done`)
      await held(writer, id)
      const size = async () => (await dataplane(writer, 'GET', '/files/stat?path=data')).text
      await expectOthersWork()
      const before = await size()
      expect((await api.release(other.session_id)).status).toBe(204)
      expect((await key.revoke()).status).toBe(204)
      isHeld(await wake(writer, id))
      isHeld(await exec(writer, 'true'))
      isHeld(await dataplane(writer, 'POST', '/processes', { process_id: 'more', command: 'sh' }))
      isHeld(await dataplane(writer, 'POST', '/files/mkdir', { path: 'more' }))

      await stack.agent().kill('SIGKILL')
      await stack.startAgent()
      await held(writer, id)
      expect(await size()).toBe(before)
      expect(disk.freeBytes()).toBeGreaterThan(0)

      expect((await dataplane(writer, 'DELETE', '/files?path=data')).status).toBe(204)
      await rm(fill)
      await eventually('the writer goes on', async () => (await dataplane(writer, 'GET', '/files/stat?path=data')).status === 200)
      expect((await exec(writer, 'true')).status).toBe(200)
      await kill(writer, id)
      expect((await api.release(writer.session_id)).status).toBe(204)
    })

    test('is stopped when it takes the inodes', async () => {
      const api = brokerApi(stack.brokerUrl)
      const writer = await api.ensure('toucher')
      const fill = join(disk.path, 'fill')
      await mkdir(fill)
      for (let n = disk.freeInodes() - 1.75 * FLOOR.inodes; n > 0; n--) writeFileSync(join(fill, String(n)), '')
      const touch = 'mkdir -p d; i=0; while :; do for n in 0 1 2 3 4 5 6 7 8 9; do : > d/$i-$n; : > d/$n-$i-; done; i=$((i+1)); '
      const id = await begin(writer, `${touch}${PAUSE}; done`)
      await held(writer, id)
      const entries = async () => (await dataplane(writer, 'GET', '/files/stat?path=d')).text
      await expectOthersWork()
      const before = await entries()
      await expectOthersWork()
      expect(await entries()).toBe(before)
      expect((await dataplane(writer, 'DELETE', '/files?path=d&recursive=true')).status).toBe(204)
      await rm(fill, { recursive: true })
      await eventually('it is held no more', async () => (await wake(writer, id)).status === 204)
      await kill(writer, id)
    })

    test('[2-119] is stopped above workspace_quota_mb until something is deleted; uploads that do not fit are refused', async () => {
      const writer = await brokerApi(stack.brokerUrl).ensure('limited', { profile: 'limited' })
      const write = `while :; do head -c 262144 /dev/zero >> data; ${PAUSE}; done`
      const upload = (path: string, bytes: number, fields: RequestInit = {}) =>
        request(`${writer.sandbox.http_base_url}/files/upload?path=${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${writer.token}` },
          body: new Uint8Array(bytes),
          ...fields,
        })
      const expectFull = (reply: Reply) =>
        expect(expectRefusal(reply, 507, 'QUOTA_EXCEEDED').details).toEqual({ reason: 'workspace_quota', limit: 'workspace_quota_mb' })
      const remove = async (path: string) => expect((await dataplane(writer, 'DELETE', `/files?path=${path}`)).status).toBe(204)

      expect((await upload('one', 0.8 * QUOTA)).status).toBe(200)
      expectFull(await upload('two', 0.8 * QUOTA))
      const pieces = new ReadableStream({
        start(stream) {
          for (let n = 0; n < 8; n++) stream.enqueue(new Uint8Array(QUOTA / 10))
          stream.close()
        },
      })
      expectFull(await upload('two', 0, { body: pieces, duplex: 'half' } as RequestInit))
      // What is replaced is there until the end.
      expectFull(await upload('one', 0.3 * QUOTA))
      // The supervisor removes what had come of the refused pieces after the answer.
      await eventually('there is room', async () => (await upload('one', 0.1 * QUOTA)).status === 200)
      await remove('one')
      expect((await upload('two', 0.8 * QUOTA)).status).toBe(200)
      await remove('two')

      // Who waits for the end of a command hears of it, and the command ends.
      isHeld(await exec(writer, write), 'workspace_quota')
      isHeld(await upload('one', 1), 'workspace_quota')
      await remove('data')
      await eventually('a command runs again', async () => (await exec(writer, 'true')).status === 200)

      const id = await begin(writer, write)
      await held(writer, id)
      isHeld(await exec(writer, 'true'), 'workspace_quota')
      expect((await exec(tenant, 'echo works')).body).toMatchObject({ stdout: 'works\n' })
      await remove('data')
      await eventually('the writer goes on', async () => (await dataplane(writer, 'GET', '/files/stat?path=data')).status === 200)
      await kill(writer, id)
    })
  })
}

const addKey = async (stack: Stack): Promise<{ revoke(): Promise<Reply> }> => {
  const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' }
  const made = await request(`${stack.brokerUrl}/v1/keys`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'user', principal: 'user' }),
  })
  expect(made.status).toBe(201)
  const { id } = made.body as { id: string }
  return { revoke: () => request(`${stack.brokerUrl}/v1/keys/${id}`, { method: 'DELETE', headers }) }
}
