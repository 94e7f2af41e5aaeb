import { once } from 'node:events'
import { WebSocket } from 'ws'
import { brokerClient, type Grant } from '../http.ts'
import { median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const MIB = 1024 * 1024

const open = (grant: Grant, kind: 'exec' | 'shell'): WebSocket =>
  new WebSocket(`${grant.sandbox.ws_base_url}/${kind}/ws`, 'boxoffice.v1.binary', {
    headers: { authorization: `Bearer ${grant.token}` },
    perMessageDeflate: false,
  })

/** From dialling until the last of the 1 MiB that the ring of a run holds. */
const reattach = async (grant: Grant): Promise<Row> => {
  const first = open(grant, 'exec')
  await once(first, 'open')
  const command = `head -c ${MIB} /dev/zero; exec sleep 600`
  first.send(JSON.stringify({ type: 'start', command, exec_id: 'replayed', detach: true }))
  await received(first, MIB)
  first.terminate()
  const times = await timeEach(60, async () => {
    const socket = open(grant, 'exec')
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'start', attach: 'replayed', stdout_offset: 0 }))
    await received(socket, MIB)
    socket.terminate()
  })
  const p50 = median(times.slice(10))
  return {
    row: 'reattach with a replay of 1 MiB, p50',
    measured: `${round(p50, 1)} ms`,
    comparison: '',
    must: '≤ 20 ms',
    stretch: '',
    passed: p50 <= 20,
    figures: { p50 },
  }
}

const received = (socket: WebSocket, bytes: number): Promise<void> =>
  new Promise((resolve, reject) => {
    let got = 0
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary && data[0] === 1) got += data.length - 1
      if (got >= bytes) resolve()
    })
    socket.on('close', () => reject(new Error(`closed after ${got} bytes`)))
  })

/** A key pressed in a shell until its echo by the terminal. */
const keystroke = async (grant: Grant): Promise<Row> => {
  const socket = open(grant, 'shell')
  await once(socket, 'open')
  let echoed = (_byte: number | undefined): void => {}
  const messages: string[] = []
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) echoed(data[1])
    else messages.push(String(data))
  })
  socket.send(JSON.stringify({ type: 'start', argv: ['cat'], cols: 200, rows: 50 }))
  while (!messages.some((message) => message.includes('"ready"'))) await once(socket, 'message')
  // Each key is another one than the last, so that an echo cannot be taken for the next one's.
  const press = (index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const key = 97 + (index % 26)
      echoed = (byte) => (byte === key ? resolve() : reject(new Error(`pressed ${key}, saw ${byte}`)))
      socket.send(Buffer.of(0, key))
    })
  await timeEach(300, press)
  const p50 = median(await timeEach(1000, press))
  socket.terminate()
  return {
    row: 'PTY keystroke to its echo, direct, p50',
    measured: `${round(p50)} ms`,
    comparison: '',
    must: '≤ 2 ms',
    stretch: '',
    passed: p50 <= 2,
    figures: { p50 },
  }
}

export const needs: Needs = { docker: [] }

/** What a person at a terminal notices: coming back, and typing. */
export const run = async ({ docker }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-terminal')
  const rows = [await reattach(grant), await keystroke(grant)]
  await broker.release(grant.session_id)
  return rows
}
