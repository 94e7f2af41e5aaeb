import { EventEmitter } from 'node:events'
import { BoxofficeError, CLOSE, type SessionTokenClaims, TIMES } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { WebSocket } from 'ws'
import type { Authenticator } from '../../src/auth/auth.ts'
import { EndSignal } from '../../src/sandbox/end-signal.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { SocketSession, type SocketTraffic } from '../../src/ws/session/socket-session.ts'

const NOW = 1_000_000
const claims = { exp: NOW + 60 } as SessionTokenClaims
const killed = new BoxofficeError('SANDBOX_LOST', 'the stream broke')
const released = new BoxofficeError('SESSION_RELEASED', 'the session has ended')

/** A session whose client, sandbox and traffic are the test's. */
const open = () => {
  const heard: string[] = []
  const ends = new EndSignal()
  let uses = 0
  let denied: BoxofficeError | undefined
  const sandbox = {
    onEnd: (listener: Parameters<EndSignal['listen']>[0]) => ends.listen(listener),
    activity: {
      attach() {
        uses++
        return () => uses--
      },
    },
  } as unknown as Sandbox
  const auth = {
    recheck() {
      if (denied !== undefined) throw denied
    },
    require() {},
  } as unknown as Authenticator
  const ws = Object.assign(new EventEmitter(), {
    pause() {},
    resume() {},
    ping: () => heard.push('ping'),
    close: (code: number, reason: string) => heard.push(`close ${code} ${reason}`),
    terminate: () => heard.push('terminate'),
  })
  const traffic: SocketTraffic = {
    message: (data) => void heard.push(`message ${data}`),
    thrown: (error) => session.fail(error as BoxofficeError),
    backlog: 0,
    checkProgress() {},
    ending: (error) => session.end(error, 5000),
    lost: (error) => session.end(error, 0),
    tell(error) {
      heard.push(`tell ${error.code}`)
      return error.closeCode
    },
    flush: () => heard.push('flush'),
    dispose: (lost) => heard.push(`dispose ${lost}`),
  }
  const session = new SocketSession({ ws: ws as unknown as WebSocket, auth, now: () => NOW, traffic })
  return {
    ...{ heard, ends, sandbox, session, ws },
    uses: () => uses,
    deny(error: BoxofficeError) {
      denied = error
    },
    /** What the client has been told and how its socket was closed, as one line each. */
    end: (code: BoxofficeError['code'], closeCode: number) => [`tell ${code}`, 'flush', `close ${closeCode} ${code}`, 'dispose false'],
  }
}

describe('the session of a socket', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('a client that does not say who it is in time is refused; one that has is not', () => {
    const silent = open()
    const known = open()
    known.session.admit({ ...claims, exp: NOW + 3600 }, known.sandbox)
    vi.advanceTimersByTime(TIMES.authenticateWithin * 1000)
    expect(silent.heard[0]).toBe('tell UNAUTHENTICATED')
    expect(silent.session.closing).toBe(true)
    expect(known.session.closing).toBe(false)
    known.session.close(CLOSE.done)
  })

  test('a token ends the socket after its grace, unless a newer one has come', () => {
    const { session, sandbox, heard, end } = open()
    session.admit(claims, sandbox)
    session.admit({ ...claims, exp: NOW + 120 }, sandbox)
    vi.advanceTimersByTime((60 + TIMES.tokenGraceOnSocket) * 1000)
    expect(session.closing).toBe(false)
    vi.advanceTimersByTime(60_000)
    expect(heard.filter((line) => !/ping|terminate/.test(line))).toEqual(
      end('TOKEN_EXPIRED', new BoxofficeError('TOKEN_EXPIRED', '').closeCode),
    )
  })

  test('an end that has a reason is told as that, also when the stream of the process breaks first', () => {
    const { session, sandbox, heard, end } = open()
    session.admit(claims, sandbox)
    session.end(released, 5000)
    expect(heard).toEqual([])
    session.fail(killed)
    expect(heard).toEqual(end('SESSION_RELEASED', released.closeCode))
    vi.advanceTimersByTime(5000)
    expect(heard).toHaveLength(4)
  })

  test('an end waits for the process no longer than it was given', () => {
    const { session, sandbox, heard, end, deny } = open()
    session.admit(claims, sandbox)
    deny(released)
    session.recheck()
    vi.advanceTimersByTime(4999)
    expect(session.closing).toBe(false)
    vi.advanceTimersByTime(1)
    expect(heard).toEqual(end('SESSION_RELEASED', released.closeCode))
  })

  test('the end of a sandbox reaches its sockets, and none that has closed', () => {
    const { session, sandbox, ends, heard, end } = open()
    const other = open()
    session.admit(claims, sandbox)
    other.session.admit(claims, sandbox)
    other.session.close(CLOSE.done)
    ends.tell({ lost: true, reason: 'oom' })
    expect(heard).toEqual(end('SANDBOX_LOST', killed.closeCode))
    expect(other.heard).toEqual(['flush', `close ${CLOSE.done} `, 'dispose false'])
  })

  test('the sandbox is in use until the socket is done, and nothing is left after that', () => {
    const { session, sandbox, ws, uses, heard } = open()
    session.admit(claims, sandbox)
    session.use(sandbox)
    session.use(sandbox)
    expect(uses()).toBe(1)
    ws.emit('message', Buffer.from('a'), false)
    ws.emit('close', 1006)
    ws.emit('message', Buffer.from('b'), false)
    ws.emit('close', 1006)
    session.fail(killed)
    expect(heard).toEqual(['message a', 'dispose true'])
    expect([uses(), session.signal.aborted, vi.getTimerCount()]).toEqual([0, true, 0])
  })

  test('a peer that answers no ping is given up at the third', () => {
    const { session, sandbox, ws, heard } = open()
    session.admit({ ...claims, exp: NOW + 3600 }, sandbox)
    vi.advanceTimersByTime(2 * TIMES.pingEvery * 1000)
    ws.emit('pong')
    vi.advanceTimersByTime(2 * TIMES.pingEvery * 1000)
    expect(heard).toEqual(['ping', 'ping', 'ping', 'ping'])
    vi.advanceTimersByTime(TIMES.pingEvery * 1000)
    expect(heard.at(-1)).toBe('terminate')
    session.close(CLOSE.done)
  })
})
