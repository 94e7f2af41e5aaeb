import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { statfsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { expectRefusal } from '../support/refusal.ts'
import { makeSmallDisk } from '../support/small-disk.ts'
import { MODES, startStack } from '../support/stack.ts'

const MiB = 1024 ** 2
const DISK_MIB = 96
/** 5 % of it stay free. */
const FLOOR = (DISK_MIB * MiB) / 20
const INODES = 4000

const archiveOf = async (content: string): Promise<Uint8Array<ArrayBuffer>> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-tar-'))
  await writeFile(join(directory, 'entry'), content)
  const archive = execFileSync('tar', ['-c', '-C', directory, 'entry'])
  await rm(directory, { recursive: true })
  return new Uint8Array(archive)
}

/** An upload of that length, of which nothing is sent; what is said to it. */
const announce = async (grant: Grant, query: string, length: number): Promise<{ status: number | undefined; error: unknown }> => {
  const sent = httpRequest(`${grant.sandbox.http_base_url}/files/upload?${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${grant.token}`, 'content-length': length },
  })
  sent.flushHeaders()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  sent.on('error', () => {}).destroy()
  return { status: response.statusCode, error: (JSON.parse(String(Buffer.concat(chunks))) as { error: unknown }).error }
}

test.each(MODES)(
  '%s: below the floor of a disk nothing is uploaded and no sandbox is made; what is there goes on, and all is well with room again',
  async (mode) => {
    await using disk = await makeSmallDisk({ mib: DISK_MIB, inodes: INODES })
    await using stack = await startStack({ provider: 'local', mode, agentArgs: ['--data-dir', join(disk.path, 'agent')] })
    const api = brokerApi(stack.brokerUrl)
    const grant = await api.ensure('there')
    const upload = (query: string, body: BodyInit) =>
      request(`${grant.sandbox.http_base_url}/files/upload?${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${grant.token}` },
        body,
      })
    const archive = await archiveOf('from an archive')
    const writes = () => [
      upload('path=data', 'new'),
      upload('path=unpacked&archive=tar', archive),
      dataplane(grant, 'POST', '/files/mkdir', { path: 'directory' }),
    ]
    const fill = join(disk.path, 'fill')
    const expectLow = async (): Promise<void> => {
      for (const write of writes()) {
        const reply = await write
        expect(expectRefusal(reply, 507, 'QUOTA_EXCEEDED')).toMatchObject({ details: { reason: 'disk_low' } })
      }
      const made = await api.negotiate({ thread_id: 'more', mode: 'ensure' })
      expect([made.status, made.body]).toEqual([
        503,
        expect.objectContaining({ error: expect.objectContaining({ code: 'AGENT_FULL', details: { limit: 'disk' } }) }),
      ])
      // What is there is used, read and made smaller as before.
      expect((await dataplane(grant, 'POST', '/exec', { command: 'cat data; ls' })).body).toMatchObject({
        exit_code: 0,
        stdout: 'olddata\n',
      })
      expect((await dataplane(grant, 'GET', '/files/download?path=data')).text).toBe('old')
      expect((await api.ensure('there')).session_id).toBe(grant.session_id)
    }

    expect((await upload('path=data', 'old')).status).toBe(200)
    // What would end below the floor is refused before any of it comes.
    const { bavail, bsize } = statfsSync(disk.path)
    const room = Math.floor(bavail * bsize - FLOOR / 2)
    expect(await announce(grant, 'path=large', room)).toMatchObject({
      status: 507,
      error: { code: 'QUOTA_EXCEEDED', message: expect.stringMatching(/^"large" .*no space/), details: { reason: 'disk_low' } },
    })

    await writeFile(fill, Buffer.alloc(room))
    await expectLow()
    await rm(fill)
    for (const write of writes()) expect((await write).status).toBe(200)
    expect((await dataplane(grant, 'POST', '/exec', { command: 'rm -r data unpacked directory; printf old > data' })).body).toMatchObject({
      exit_code: 0,
    })

    await mkdir(fill)
    const { ffree } = statfsSync(disk.path)
    for (let n = 0; n < ffree - INODES / 40; n++) await writeFile(join(fill, String(n)), '')
    await expectLow()
    await rm(fill, { recursive: true })
    expect((await api.ensure('more')).session_id).not.toBe(grant.session_id)
    for (const write of writes()) expect((await write).status).toBe(200)
  },
)
