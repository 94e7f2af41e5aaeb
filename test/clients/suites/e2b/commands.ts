import { CommandExitError, TimeoutError } from 'e2b'
import { expect, test } from 'vitest'
import type { E2bStand } from './stand.ts'

const enc = new TextEncoder()

/** Commands and terminals of E2B's SDK, on every engine. */
export const commandsCases = (stand: E2bStand): void => {
  test('a command gives its output and exit code', async () => {
    const result = await stand.shared.commands.run('echo out; echo err >&2; pwd', { envs: { A: 'b' } })
    expect(result).toMatchObject({ stdout: 'out\n/workspace\n', stderr: 'err\n', exitCode: 0 })
    await expect(stand.shared.commands.run('echo "$A"; exit 42', { envs: { A: 'b c' } })).rejects.toMatchObject({
      exitCode: 42,
      stdout: 'b c\n',
    })
  })

  test('a background command has stdin, is listed, connected to and killed', async () => {
    const { commands } = stand.shared
    const cat = await commands.run('cat', { background: true, stdin: true })
    await commands.sendStdin(cat.pid, 'one\n')
    await commands.sendStdin(cat.pid, enc.encode('two\n'))
    expect((await commands.list()).map(({ pid, cmd, args }) => ({ pid, cmd, args }))).toContainEqual({
      pid: cat.pid,
      cmd: '/bin/bash',
      args: ['-l', '-c', 'cat'],
    })
    await cat.closeStdin()
    expect(await cat.wait()).toMatchObject({ stdout: 'one\ntwo\n', exitCode: 0 })
    // The output of a command that has ended is replayed.
    expect(await (await commands.connect(cat.pid)).wait()).toMatchObject({ stdout: 'one\ntwo\n' })

    const sleeper = await commands.run('echo up; exec sleep 600', { background: true })
    await sleeper.disconnect()
    const up = Promise.withResolvers<void>()
    const again = await commands.connect(sleeper.pid, { onStdout: () => up.resolve() })
    await up.promise
    expect(await again.kill()).toBe(true)
    await expect(again.wait()).rejects.toBeInstanceOf(CommandExitError)
    expect(again.stdout).toBe('up\n')
    expect(await commands.kill(sleeper.pid)).toBe(false)
  })

  test('a terminal takes input and another size', async () => {
    let shown = ''
    const seen = Promise.withResolvers<void>()
    const terminal = await stand.shared.pty.create({
      cols: 80,
      rows: 24,
      onData: (data) => {
        shown += new TextDecoder().decode(data)
        if (/size 40 120/.test(shown)) seen.resolve()
      },
    })
    await stand.shared.pty.resize(terminal.pid, { cols: 120, rows: 40 })
    await stand.shared.pty.sendInput(terminal.pid, enc.encode('echo "size $(stty size)"\n'))
    await seen.promise
    await stand.shared.pty.sendInput(terminal.pid, enc.encode('exit 0\n'))
    expect(await terminal.wait()).toMatchObject({ exitCode: 0 })
  })
}

/** Commands and terminals of E2B's SDK. */
export const moreCommandsCases = (stand: E2bStand): void => {
  test('output is streamed, in time and whole', async () => {
    const lines: string[] = []
    const first = Promise.withResolvers<void>()
    const command = await stand.shared.commands.run('echo first; read line; echo "got $line"', {
      background: true,
      stdin: true,
      onStdout: (text) => {
        lines.push(text)
        first.resolve()
      },
    })
    await first.promise
    await stand.shared.commands.sendStdin(command.pid, 'more\n')
    await command.wait()
    expect(lines).toEqual(['first\n', 'got more\n'])
    const { stdout } = await stand.shared.commands.run('seq 1 300000')
    expect(stdout.length).toBe(1_988_895)
    expect(stdout.endsWith('\n299999\n300000\n')).toBe(true)
  })

  test('a lot of stdin arrives whole', async () => {
    const command = await stand.shared.commands.run('head -c 600000 | wc -c; cat', { background: true, stdin: true })
    const piece = 'x'.repeat(150_000)
    const sent = (async () => {
      for (let i = 0; i < 4; i++) await stand.shared.commands.sendStdin(command.pid, piece)
      await stand.shared.commands.sendStdin(command.pid, 'rest')
      await stand.shared.commands.closeStdin(command.pid)
    })()
    expect((await command.wait()).stdout).toBe('600000\nrest')
    await sent
  })

  test('stdin that nobody takes is refused once enough of it waits', async () => {
    const command = await stand.shared.commands.run('exec sleep 600', { background: true, stdin: true })
    const sent = Array.from({ length: 30 }, () => stand.shared.commands.sendStdin(command.pid, 'x'.repeat(150_000)))
    await expect(Promise.all(sent)).rejects.toThrow(/reads too little of its stdin/)
    await command.kill()
    await Promise.allSettled([...sent, command.wait()])
  })

  test('a time limit that is longer than a timer ends no terminal', async () => {
    const start = { process: { cmd: '/bin/sh', args: ['-c', 'exit 3'] }, pty: { size: { cols: 80, rows: 24 } } }
    const message = Buffer.from(`.....${JSON.stringify(start)}`)
    message.writeUIntBE(message.length - 5, 0, 5)
    const headers = { 'content-type': 'application/connect+json', 'connect-timeout-ms': String(2 ** 32) }
    const answer = await stand.envd('/process.Process/Start', { method: 'POST', headers, body: message })
    expect(await answer.text()).toMatch(/"exitCode":3/)
  })

  test('a command is ended after its timeout', async () => {
    await expect(stand.shared.commands.run('echo on; exec sleep 600', { timeoutMs: 1000 })).rejects.toBeInstanceOf(TimeoutError)
    await expect.poll(async () => (await stand.shared.commands.list()).filter(({ args }) => args.at(-1)?.includes('echo on'))).toEqual([])
  })
}
