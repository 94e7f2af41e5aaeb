import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import Docker from 'dockerode'
import { WebSocket } from 'ws'
import { brokerClient, type Grant } from '../http.ts'
import { inTurn } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const GIB = 1024 ** 3
const PRODUCER = ['dd', 'if=/dev/zero', 'bs=64k', 'count=16384', 'status=none']

/** Starts the process that serves the bare comparisons. */
export const startPeers = async (scratch: string): Promise<{ port: number; stop(): void }> => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../peers.ts', import.meta.url)), scratch], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return { port: Number(line), stop: () => child.kill() }
}

/** MiB per second of the binary subprotocol; insists on every byte and exit code 0. */
export const throughExec = async (grant: Grant): Promise<number> => {
  const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', {
    headers: { authorization: `Bearer ${grant.token}` },
    perMessageDeflate: false,
  })
  let received = 0
  let exit: { exit_code: number; stdout_bytes: number } | undefined
  await once(socket, 'open')
  const start = performance.now()
  socket.on('message', (message: Buffer, binary: boolean) => {
    if (binary) {
      received += message.length - 1
      return
    }
    const frame = JSON.parse(String(message)) as { type: string; exit_code: number; stdout_bytes: number }
    if (frame.type === 'exit') exit = frame
  })
  socket.send(JSON.stringify({ type: 'start', argv: PRODUCER, stdin: 'closed' }))
  await once(socket, 'close')
  if (received !== GIB || exit?.exit_code !== 0) throw new Error(`received ${received} bytes, exit ${JSON.stringify(exit)}`)
  return 1024 / ((performance.now() - start) / 1000)
}

const throughBareSocket = async (port: number): Promise<number> => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false })
  let received = 0
  await once(socket, 'open')
  const start = performance.now()
  socket.on('message', (message: Buffer) => {
    received += message.length
  })
  socket.send(String(GIB))
  await once(socket, 'close')
  if (received !== GIB) throw new Error(`received ${received} bytes`)
  return 1024 / ((performance.now() - start) / 1000)
}

const throughEngine = async (container: Docker.Container): Promise<number> => {
  const start = performance.now()
  const exec = await container.exec({ Cmd: PRODUCER, AttachStdout: true })
  const stream = await exec.start({ hijack: true, stdin: false })
  let received = 0
  stream.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  await once(stream, 'end')
  if (received < GIB) throw new Error(`received ${received} bytes`)
  return 1024 / ((performance.now() - start) / 1000)
}

export const needs: Needs = { docker: [] }

/** 1 GiB of stdout over the binary subprotocol, against an engine exec stream and a bare `ws` sender. */
export const run = async ({ docker, scratch }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-stdout')
  const [found] = await new Docker().listContainers({ filters: { label: [`boxoffice.sandbox_id=${grant.sandbox.id}`] } })
  if (found === undefined) throw new Error('the sandbox has no container')
  const container = new Docker().getContainer(found.Id)
  const peers = await startPeers(scratch)
  await throughExec(grant)
  await throughBareSocket(peers.port)
  const bare = await inTurn(
    () => throughExec(grant),
    () => throughBareSocket(peers.port),
  )
  const engine = await inTurn(
    () => throughExec(grant),
    () => throughEngine(container),
  )
  peers.stop()
  await broker.release(grant.session_id)
  return [
    {
      row: '1 GiB of stdout over WS binary, against the engine',
      measured: `${round(engine.ours, 0)} MiB/s = ${round(engine.ratio, 1)} ×`,
      comparison: `dockerode exec stream ${round(engine.theirs, 0)} MiB/s`,
      must: '≥ 2 ×',
      stretch: '',
      passed: engine.ratio >= 2,
      figures: { ...engine },
    },
    {
      row: '1 GiB of stdout over WS binary, against bare ws',
      measured: `${round(bare.ours, 0)} MiB/s = ${round(bare.ratio)} ×`,
      comparison: `bare ws sender ${round(bare.theirs, 0)} MiB/s`,
      must: '≥ 0.6 ×',
      stretch: '0.8 ×',
      passed: bare.ratio >= 0.6,
      figures: { ...bare },
    },
  ]
}
