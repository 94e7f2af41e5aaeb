import { spawn } from 'node:child_process'
import { once } from 'node:events'
import Docker from 'dockerode'
import { brokerClient, execOnce, httpClient } from '../http.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const BODY = '{"argv":["/bin/true"]}'
const COUNT = 400

const spawnTrue = async (): Promise<void> => {
  const child = spawn('/bin/true', { stdio: ['ignore', 'pipe', 'pipe'] })
  const [code] = (await once(child, 'close')) as [number]
  if (code !== 0) throw new Error(`/bin/true: ${code}`)
}

const dockerExec = async (container: Docker.Container): Promise<void> => {
  const exec = await container.exec({ Cmd: ['/bin/true'], AttachStdout: true, AttachStderr: true })
  const stream = await exec.start({ hijack: false, stdin: false })
  stream.resume()
  await once(stream, 'end')
  const { ExitCode } = await exec.inspect()
  if (ExitCode !== 0) throw new Error(`docker exec: ${ExitCode}`)
}

export const needs: Needs = { docker: [] }

/** `POST /exec` of `/bin/true` against `child_process.spawn` on the host, and against `docker exec` in the same container. */
export const run = async ({ docker }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-exec-latency')
  const client = httpClient()
  const [container] = await new Docker().listContainers({ filters: { label: [`boxoffice.sandbox_id=${grant.sandbox.id}`] } })
  if (container === undefined) throw new Error('the sandbox has no container')
  const engine = new Docker().getContainer(container.Id)
  await timeEach(300, () => execOnce(client, grant, BODY))
  await timeEach(100, spawnTrue)
  const ours = async () => median(await timeEach(COUNT, () => execOnce(client, grant, BODY)))
  const host = await inTurn(ours, async () => median(await timeEach(COUNT, spawnTrue)))
  const engineExec = await inTurn(ours, async () => median(await timeEach(20, () => dockerExec(engine))))
  await broker.release(grant.session_id)
  const faster = 1 / engineExec.ratio
  return [
    {
      row: 'POST /exec /bin/true, docker, p50',
      measured: `${round(host.ours)} ms = ${round(host.ratio)} ×`,
      comparison: `child_process.spawn on the host ${round(host.theirs)} ms`,
      must: '≤ 1.0 ×',
      stretch: '0.75 ×',
      passed: host.ratio <= 1,
      figures: { ...host },
    },
    {
      row: 'the same against docker exec',
      measured: `${round(engineExec.ours)} ms = ${round(faster, 1)} × faster`,
      comparison: `dockerode exec ${round(engineExec.theirs, 1)} ms`,
      must: '≥ 25 × faster',
      stretch: '40 ×',
      passed: faster >= 25,
      figures: { ...engineExec },
    },
  ]
}
