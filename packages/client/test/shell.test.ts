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

  test('[3.4] is joined with what is still kept of it, which is no gap; and says what was there before', async ({ server, session }) => {
    const first = await session.shell({ shellId: 'main' })
    expect([first.joined, first.replay]).toEqual([false, undefined])
    const process = server.processes.get('main')
    process?.write('old screen')
    process?.forget(4)
    first.detach()
    await first.exit.catch(() => {})
    const second = await session.shell({ shellId: 'main' })
    expect(second.replay).toMatchObject({ from: 4, to: 10 })
    process?.write(', new')
    process?.exit()
    expect(await second.output.text()).toBe('screen, new')
  })

  test('[3.4] a viewer is told what it may not do, tells no size, and comes back after a drop all the same', async ({
    server,
    session,
  }) => {
    const viewer = await session.shell({ shellId: 'main', mode: 'viewer', cols: 80, rows: 24 })
    const process = server.processes.get('main')
    viewer.resize(90, 30)
    process?.socket?.send(
      JSON.stringify({
        type: 'error',
        error: { code: 'CAPABILITY_DENIED', message: 'A viewer cannot send stdin', retryable: false, request_id: 'req_1' },
      }),
    )
    process?.write('seen')
    for await (const _ of viewer.output) break
    server.cut()
    await expect.poll(() => process?.connections).toBe(2)
    process?.exit()
    expect(await viewer.exit).toMatchObject({ exitCode: 0 })
    expect(process?.frames.filter(({ type }) => type === 'resize')).toEqual([])
  })

  test('that is only looked at takes no input, and says so', async ({ session }) => {
    const shell = await session.shell({ shellId: 'main' })
    const viewer = await session.shell({ shellId: 'main', mode: 'viewer' })
    await expect(viewer.write('ls\n')).rejects.toMatchObject({ code: 'CAPABILITY_DENIED', message: 'main: a viewer reads only' })
    await expect(viewer.input.end()).rejects.toMatchObject({ code: 'CAPABILITY_DENIED' })
    await shell.write('ls\n')
  })
})
