import Docker from 'dockerode'
import { brokerClient, type Grant } from '../http.ts'
import { poolFull, until } from '../pool.ts'
import { POOLED } from '../profiles.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const BLOCK = 16

/** Create + start of an equally confined container, as a program that talks to the engine itself would do it. */
const createAndStart = async (docker: Docker, image: string): Promise<Docker.Container> => {
  const container = await docker.createContainer({
    Image: image,
    Entrypoint: ['sleep', 'infinity'],
    User: '1000:1000',
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      ReadonlyRootfs: true,
      Tmpfs: { '/tmp': 'size=64m' },
      Memory: 512 * 1024 * 1024,
      NanoCpus: 1e9,
      PidsLimit: 128,
    },
  })
  await container.start()
  return container
}

const engineBlock = async (docker: Docker, image: string): Promise<number> => {
  const made: Docker.Container[] = []
  const times = await timeEach(BLOCK, async () => {
    made.push(await createAndStart(docker, image))
  })
  await Promise.all(made.map((container) => container.remove({ force: true, v: true })))
  return median(times)
}

let threads = 0

/** A block of ensures of new threads; releases them afterwards and waits until `settled`. */
const ensureBlock = async (
  broker: ReturnType<typeof brokerClient>,
  profile: string,
  settled: (released: Grant[]) => Promise<void>,
): Promise<number> => {
  const grants: Grant[] = []
  const times = await timeEach(BLOCK, async () => {
    grants.push(await broker.ensure(`bench-new-${process.pid}-${threads++}`, profile))
  })
  for (const grant of grants) await broker.release(grant.session_id)
  await settled(grants)
  return median(times)
}

export const needs: Needs = { docker: [POOLED] }

/** `ensure` of a new thread on docker, with a warm pool and without. */
export const run = async ({ docker: stack, image }: RowContext): Promise<Row[]> => {
  const docker = new Docker()
  const broker = brokerClient(stack.brokerUrl, stack.apiKey)
  const managed = async () => docker.listContainers({ filters: { label: ['boxoffice.managed=true'] } })
  const gone = async (grants: Grant[]) => {
    const ids = new Set(grants.map((grant) => grant.sandbox.id))
    await until(async () => !(await managed()).some((container) => ids.has(container.Labels['boxoffice.sandbox_id'] ?? '')))
  }
  await engineBlock(docker, image)
  await poolFull(docker)
  const warm = await inTurn(
    () =>
      ensureBlock(broker, 'pooled', async (grants) => {
        await gone(grants)
        await poolFull(docker)
      }),
    () => engineBlock(docker, image),
  )
  const cold = await inTurn(
    () => ensureBlock(broker, 'default', gone),
    () => engineBlock(docker, image),
  )
  return [
    {
      row: 'ensure of a new thread, warm pool, docker, p50',
      measured: `${round(warm.ours)} ms = ${round(1 / warm.ratio, 1)} × faster`,
      comparison: `create + start through dockerode ${round(warm.theirs, 1)} ms`,
      must: '≥ 15 × faster',
      stretch: '≤ 5 ms',
      passed: 1 / warm.ratio >= 15,
      figures: { ...warm },
    },
    {
      row: 'ensure of a new thread, docker, no pool, p50',
      measured: `${round(cold.ours, 1)} ms = ${round(cold.ratio)} ×`,
      comparison: `create + start through dockerode ${round(cold.theirs, 1)} ms`,
      must: '≤ 1.15 ×',
      stretch: '',
      passed: cold.ratio <= 1.15,
      figures: { ...cold },
    },
  ]
}
