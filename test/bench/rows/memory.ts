import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { brokerClient, execOnce, httpClient } from '../http.ts'
import { median } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const residentKiB = (pid: number, field = 'VmRSS'): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN)

const STALL_MS = 30_000

/** The agent's growth while one client has stopped reading `yes`. */
const stalledReader = async ({ docker }: RowContext): Promise<Row> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-memory')
  const client = httpClient()
  for (let i = 0; i < 200; i++) await execOnce(client, grant, '{"argv":["/bin/true"]}')
  const before = residentKiB(docker.agentPid)
  const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', {
    headers: { authorization: `Bearer ${grant.token}` },
    perMessageDeflate: false,
  })
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'start', argv: ['yes'], stdin: 'closed' }))
  await once(socket, 'message')
  socket.pause()
  let peak = 0
  const sample = setInterval(() => {
    peak = Math.max(peak, residentKiB(docker.agentPid))
  }, 250)
  await new Promise((resolve) => setTimeout(resolve, STALL_MS))
  clearInterval(sample)
  socket.terminate()
  await broker.release(grant.session_id)
  const grown = (peak - before) / 1024
  return {
    row: 'agent memory while a client has not read `yes` for 30 s',
    measured: `grows ${round(grown, 1)} MiB`,
    comparison: `before ${round(before / 1024, 0)} MiB`,
    must: '< 16 MiB',
    stretch: '',
    passed: grown < 16,
    figures: { grown_mib: grown, before_mib: before / 1024 },
  }
}

/** Resident memory of the supervisors of idle sandboxes that have run one command each. */
const idleSupervisor = async ({ local }: RowContext): Promise<Row> => {
  const broker = brokerClient(local.brokerUrl, local.apiKey)
  const client = httpClient()
  const known = new Set(supervisorPids())
  const grants = await Promise.all(Array.from({ length: 5 }, (_, i) => broker.ensure(`bench-idle-${i}`)))
  for (const grant of grants) await execOnce(client, grant, '{"argv":["/bin/true"]}')
  const sizes = supervisorPids()
    .filter((pid) => !known.has(pid))
    .map((pid) => residentKiB(pid) / 1024)
  for (const grant of grants) await broker.release(grant.session_id)
  const resident = median(sizes)
  return {
    row: 'supervisor resident memory, idle',
    measured: `${round(resident)} MiB`,
    comparison: `${sizes.length} sandboxes`,
    must: '≤ 2 MiB',
    stretch: '1 MiB',
    passed: resident <= 2,
    figures: { resident_mib: resident },
  }
}

const supervisorPids = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'supervisor'
      } catch {
        return false // it ended between the two looks
      }
    })

export const needs: Needs = { docker: [], local: [] }

/** Memory: the agent with a stalled reader, the supervisor at rest. */
export const run = async (context: RowContext): Promise<Row[]> => [await stalledReader(context), await idleSupervisor(context)]
