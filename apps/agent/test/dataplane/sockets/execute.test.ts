import { ExecuteServerFrame } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { type ConnectOptions, SocketClient } from '../../support/socket-client.ts'

/** A client of `execute/ws`, which knows the frames of LangSmith's SDK alone. */
class ExecuteSocket extends SocketClient {
  readonly frames: ExecuteServerFrame[] = []

  constructor(plane: TestDataplane, options: ConnectOptions = { token: plane.token }) {
    super(`${plane.wsBase}/execute/ws`, [], options)
  }

  send(frame: object): void {
    this.ws.send(JSON.stringify(frame))
  }

  text(type: 'stdout' | 'stderr' = 'stdout'): string {
    return this.frames.map((frame) => (frame.type === type ? frame.data : '')).join('')
  }

  protected received(message: Buffer): void {
    this.frames.push(ExecuteServerFrame.parse(JSON.parse(message.toString())))
  }

  protected describe(): string {
    return JSON.stringify(this.frames)
  }
}

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const connect = (options?: ConnectOptions): Promise<ExecuteSocket> => ended(new ExecuteSocket(dp, options)).opened()

/** The frames of one command, from the first to the close. */
const execute = async (frame: object, options?: ConnectOptions): Promise<ExecuteSocket> => {
  const socket = await connect(options)
  socket.send({ type: 'execute', ...frame })
  await socket.closed
  return socket
}

describe('execute/ws', { tags: ['C-44'] }, () => {
  test('started comes first, then both streams with the offsets of their bytes, then the exit code', async () => {
    const socket = await execute({ command: 'printf añb; echo err >&2; exit 42', shell: '/bin/bash', timeout: 30, env: null, cwd: null })
    const [started] = socket.frames
    expect(started).toMatchObject({ type: 'started', pid: expect.any(Number), command_id: expect.any(String) })
    expect([socket.text(), socket.text('stderr')]).toEqual(['añb', 'err\n'])
    expect(socket.frames.filter(({ type }) => type === 'stdout')).toMatchObject([{ offset: 0 }])
    expect(socket.frames.at(-1)).toEqual({ type: 'exit', exit_code: 42 })
    expect((await socket.closed).code).toBe(1000)
  })

  test('the command takes its directory, its environment and its shell', async () => {
    const socket = await execute({ command: 'echo $0 $A; pwd', shell: '/bin/sh', env: { A: 'b' }, cwd: '/' })
    expect(socket.text()).toBe('/bin/sh b\n/\n')
  })

  test('input reaches it until close_stdin', async () => {
    const socket = await connect()
    socket.send({ type: 'execute', command: 'cat' })
    socket.send({ type: 'input', data: 'one\n' })
    await socket.until(() => socket.text() === 'one\n')
    socket.send({ type: 'input', data: 'two\n' })
    socket.send({ type: 'close_stdin' })
    await socket.closed
    expect([socket.text(), socket.frames.at(-1)]).toEqual(['one\ntwo\n', { type: 'exit', exit_code: 0 }])
  })

  test('kill ends it', async () => {
    const socket = await connect()
    socket.send({ type: 'execute', command: 'echo there; sleep 600' })
    await socket.until(() => socket.text() === 'there\n')
    socket.send({ type: 'kill' })
    await socket.closed
    expect(socket.frames.at(-1)).toEqual({ type: 'exit', exit_code: 137 })
  })

  test('it goes on without its client, and reconnect has the bytes from the offsets on', async () => {
    const first = await connect()
    first.send({ type: 'execute', command_id: 'goes-on', command: 'echo one; while [ ! -e over ]; do sleep 0.05; done; echo two' })
    await first.until(() => first.text() === 'one\n')
    first.ws.terminate()
    await dp.exec({ command: 'touch over' })
    const second = await connect()
    second.send({ type: 'reconnect', command_id: 'goes-on', stdout_offset: 2, stderr_offset: 0 })
    await second.closed
    expect(second.frames[0]).toMatchObject({ type: 'started', command_id: 'goes-on' })
    expect([second.text(), second.frames.at(-1)]).toEqual(['e\ntwo\n', { type: 'exit', exit_code: 0 }])
  })

  test('a command that is sent again under its id runs once', async () => {
    const frame = { command: 'echo ran | tee -a runs', command_id: 'again', close_stdin: true }
    await execute(frame)
    const again = await execute(frame)
    expect([again.text(), again.frames.at(-1)]).toEqual(['ran\n', { type: 'exit', exit_code: 0 }])
    expect(await dp.exec({ command: 'cat runs' })).toMatchObject({ stdout: 'ran\n' })
  })

  test('a timeout, and a command that nobody knows, are errors of their type', async () => {
    const late = await execute({ command: 'sleep 600', timeout_seconds: 0.2 })
    expect(late.frames.at(-1)).toMatchObject({ type: 'error', error_type: 'CommandTimeout' })
    const unknown = await connect()
    unknown.send({ type: 'reconnect', command_id: 'nobody' })
    await unknown.closed
    expect(unknown.frames).toMatchObject([{ type: 'error', error_type: 'CommandNotFound' }])
  })

  test.each([
    ['that is no JSON', 'no json'],
    ['without a command', '{"type":"execute"}'],
    ['that asks for a terminal', '{"type":"execute","command":"true","pty":{"rows":1}}'],
    ['before there is a command', '{"type":"input","data":"x"}'],
    ['of our own dialect', '{"type":"start","command":"true"}'],
  ])('a frame %s is an error', async (_, text) => {
    const socket = await connect()
    socket.ws.send(text)
    await socket.until(() => socket.frames.length > 0)
    expect(socket.frames).toMatchObject([{ type: 'error', error_type: 'CommandError' }])
    socket.ws.terminate()
  })

  test('the token may come as X-Api-Key; beside Authorization it is not looked at', async () => {
    const alone = await execute({ command: 'echo in' }, { headers: { 'X-Api-Key': dp.token } })
    expect(alone.text()).toBe('in\n')
    const beside = await execute({ command: 'echo in' }, { token: dp.token, headers: { 'X-Api-Key': 'another' } })
    expect(beside.text()).toBe('in\n')
  })

  test.each([
    ['bad', { token: 'bad' }],
    ['missing', {}],
  ])('a token that is %s is refused in a frame, then with 4401', async (_, options) => {
    const socket = await connect(options)
    expect((await socket.closed).code).toBe(4401)
    expect(socket.frames).toMatchObject([{ type: 'error', error_type: 'SessionExpired' }])
  })

  test('who is refused in a frame and sends what is no frame is cut; the others are served', async () => {
    const socket = await connect({ token: 'bad' })
    // Reserved bits and a reserved opcode.
    ;(socket.ws as unknown as { _socket: { write(bytes: Buffer): void } })._socket.write(Buffer.from([0xff, 0xff, 0xff, 0xff]))
    await socket.closed
    expect((await execute({ command: 'echo there' })).text()).toBe('there\n')
  })

  test('what is refused before the upgrade has error_type and message at top level', async () => {
    const socket = ended(new ExecuteSocket(dp, { token: dp.token, headers: { Origin: 'https://elsewhere.example' } }))
    expect(await socket.refused()).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' }, error_type: 'FORBIDDEN' } })
  })
})
