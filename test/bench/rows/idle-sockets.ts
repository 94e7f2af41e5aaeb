import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { median } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const SOCKETS = 1000

/** Median of a second's samples: a collection in between is no growth. */
const residentKiB = async (pid: number): Promise<number> => {
  const samples: number[] = []
  for (let i = 0; i < 20; i++) {
    samples.push(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return median(samples)
}

const authenticated = async (grant: Grant): Promise<WebSocket> => {
  const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1', {
    headers: { authorization: `Bearer ${grant.token}` },
    perMessageDeflate: false,
  })
  await once(socket, 'message')
  return socket
}

export const needs: Needs = { docker: [] }

/** What one authenticated WebSocket that does nothing costs the agent. */
export const run = async ({ docker }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-idle-sockets')
  const client = httpClient()
  for (let i = 0; i < 500; i++) await execOnce(client, grant, '{"argv":["/bin/true"]}')
  for (const socket of await Promise.all(Array.from({ length: 50 }, () => authenticated(grant)))) socket.terminate()
  const before = await residentKiB(docker.agentPid)
  const sockets: WebSocket[] = []
  while (sockets.length < SOCKETS) sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => authenticated(grant)))))
  const each = ((await residentKiB(docker.agentPid)) - before) / SOCKETS
  for (const socket of sockets) socket.terminate()
  await broker.release(grant.session_id)
  return [
    {
      row: `memory of the agent for each of ${SOCKETS} idle WebSockets`,
      measured: `${round(each, 1)} KiB`,
      comparison: `before ${round(before / 1024, 0)} MiB`,
      must: '≤ 40 KiB',
      stretch: '',
      passed: each <= 40,
      figures: { kib_each: each },
    },
  ]
}
