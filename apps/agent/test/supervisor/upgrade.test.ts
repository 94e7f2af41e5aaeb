import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadSandboxFiles, RECORD_NAME } from '../../src/data-dir/record-file.ts'
import { TestDataplane } from '../support/dataplane.ts'
import { PortClient } from '../support/port-client.ts'
import { TestSocket } from '../support/socket.ts'
import { WatchClient } from '../support/watch-client.ts'

const FIXTURES = new URL('../fixtures/953fe7b/', import.meta.url)

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'boxoffice-953fe7b-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

test('the record of a sandbox that 953fe7b made is read', async () => {
  const text = await readFile(new URL('record.json', FIXTURES), 'utf8')
  const recorded = JSON.parse(text) as Record<string, unknown>
  const sandboxes = join(directory, 'sandboxes')
  const own = join(sandboxes, String(recorded.sandbox_id))
  await mkdir(own, { recursive: true })
  await writeFile(join(own, RECORD_NAME), text)
  const refused: unknown[] = []
  const loaded = await loadSandboxFiles(sandboxes, (_, error) => refused.push(error))
  expect(refused).toEqual([])
  expect(loaded).toMatchObject([{ ...recorded, provider: null }])
})

// The binary is for x86-64.
describe.runIf(arch() === 'x64')('a sandbox in which the supervisor of 953fe7b runs', () => {
  let supervisor: string
  beforeAll(async () => {
    supervisor = join(directory, 'supervisor')
    await writeFile(supervisor, brotliDecompressSync(await readFile(new URL('supervisor.br', FIXTURES))))
    await chmod(supervisor, 0o755)
  })

  const connect = (old: TestDataplane): Promise<TestSocket> =>
    new TestSocket(`${old.wsBase}/exec/ws`, 'binary', { token: old.token }).opened()

  const adopt = async (before: (old: TestDataplane) => Promise<void>, after: (old: TestDataplane) => Promise<void>): Promise<void> => {
    const old = await TestDataplane.start({ supervisor })
    try {
      await before(old)
      await old.sandbox.relink()
      await after(old)
    } finally {
      await old[Symbol.asyncDispose]()
    }
  }

  test('is adopted: what ran goes on, and new commands and files work', async () => {
    const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 251))
    await adopt(
      async (old) => {
        await old.post('/exec', { command: 'while [ ! -e over ]; do sleep 0.05; done; echo over', exec_id: 'long', detach: true })
        await old.exec({ command: 'echo kept > kept' })
      },
      async (old) => {
        expect(await old.exec({ command: 'cat kept; cat >&2; exit 3', stdin: 'in' })).toMatchObject({
          stdout: 'kept\n',
          stderr: 'in',
          exit_code: 3,
        })
        expect((await old.fetch('/files/upload?path=new/bytes', { method: 'POST', body: bytes })).status).toBe(200)
        const downloaded = await old.fetch('/files/download?path=new/bytes')
        expect(Buffer.from(await downloaded.arrayBuffer()).equals(bytes)).toBe(true)
        expect(await (await old.fetch('/files?path=new')).json()).toMatchObject({ files: [{ type: 'file', size: bytes.length }] })
        expect((await old.fetch('/files?path=new&recursive=true', { method: 'DELETE' })).ok).toBe(true)
        expect(await old.exec({ command: 'touch over; ls' })).toMatchObject({ stdout: 'kept\nover\n' })
        const long = { command: 'while [ ! -e over ]; do sleep 0.05; done; echo over', exec_id: 'long' }
        expect(await old.exec(long)).toMatchObject({ stdout: 'over\n', exit_code: 0 })
      },
    )
  })

  test('is adopted in the middle of a stream: no byte is lost, none comes twice', async () => {
    let before = Buffer.alloc(0)
    await adopt(
      async (old) => {
        const first = await connect(old)
        first.start({ command: 'for i in $(seq 1 200); do seq 1 2000; done | tee produced', exec_id: 'survives', ack: true })
        await first.until(() => first.bytes().length > 300_000)
        first.ws.terminate()
        before = Buffer.from(first.bytes())
      },
      async (old) => {
        const second = await connect(old)
        second.start({ attach: 'survives', stdout_offset: before.length })
        await second.closed
        expect(Buffer.concat([before, second.bytes()]).equals(await readFile(join(old.sandbox.workspacePath, 'produced')))).toBe(true)
        expect(second.find('exit')).toMatchObject({ exit_code: 0 })
      },
    )
  }, 120_000)

  test('watches no directories, and says so', async () => {
    await adopt(
      async (old) => expect(await WatchClient.refused(old)).toEqual({ status: 501, code: 'UNSUPPORTED' }),
      async (old) => expect(await WatchClient.refused(old)).toEqual({ status: 501, code: 'UNSUPPORTED' }),
    )
  })

  test('connects to no ports, and says so', async () => {
    const refused = async (old: TestDataplane): Promise<unknown> => {
      const { status } = await old.fetch('/ports')
      return [status, (await PortClient.refused(old, 8000)).status]
    }
    await adopt(
      async (old) => expect(await refused(old)).toEqual([501, 501]),
      async (old) => expect(await refused(old)).toEqual([501, 501]),
    )
  })

  test('ends a command that an agent of before has started, with all that this one has started', async () => {
    await adopt(
      async (old) => {
        await old.post('/exec', { command: 'sleep 1000 & sleep 1000', exec_id: 'sleeps', detach: true })
      },
      async (old) => {
        expect((await old.post('/execs/sleeps/signal', { signal: 'KILL' })).status).toBe(204)
        expect(await old.exec({ command: 'sleep 1000 & sleep 1000', exec_id: 'sleeps' })).toMatchObject({ signal: 'SIGKILL' })
      },
    )
  })
})
