import { describe, expect } from 'vitest'
import { test } from './fixture/server-test.ts'

describe('a shell', () => {
  test('[4-133] takes keys and sizes, shows output, and ends', async ({ server, session }) => {
    const shell = await session.shell({ cols: 120, rows: 40, term: 'vt100' })
    const process = server.processes.get(shell.shellId)
    expect(process?.start).toMatchObject({ shell_id: shell.shellId, cols: 120, rows: 40, term: 'vt100', ack: true })
    await shell.write('ls\r')
    shell.resize(80, 24)
    await expect.poll(() => process?.frames.some((frame) => frame.type === 'resize' && frame.cols === 80)).toBe(true)
    expect(Buffer.concat(process?.stdin ?? []).toString()).toBe('ls\r')
    process?.write('files')
    process?.exit({ exit_code: 4 })
    expect(await shell.output.text()).toBe('files')
    expect(await shell.exit).toMatchObject({ exitCode: 4 })
  })

  test('is joined again by its id after a drop, and told the size again', async ({ server, session }) => {
    const shell = await session.shell({ cols: 100, rows: 30, shellId: 'main' })
    const process = server.processes.get('main')
    process?.write('one ')
    shell.resize(90, 20)
    await expect.poll(() => process?.frames.filter((frame) => frame.type === 'resize').length).toBe(1)
    server.cut()
    await expect.poll(() => process?.connections).toBe(2)
    await expect.poll(() => process?.frames.filter((frame) => frame.type === 'resize').at(-1)).toMatchObject({ cols: 90, rows: 20 })
    process?.write('two')
    process?.exit()
    expect(await shell.output.text()).toBe('one two')
    await shell.exit
  })

  test('is left and joined', async ({ server, session }) => {
    const first = await session.shell({ shellId: 'main' })
    expect(first.joined).toBe(false)
    server.processes.get('main')?.write('before')
    for await (const _ of first.output) break
    const { shellId, offset } = first.detach()
    await expect(first.exit).rejects.toMatchObject({ code: 'DETACHED' })
    const second = await session.shell({ shellId, offset })
    expect(second.joined).toBe(true)
    server.processes.get('main')?.write(' after')
    server.processes.get('main')?.exit()
    expect(await second.output.text()).toBe(' after')
  })
})
