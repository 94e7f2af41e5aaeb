import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { brokerClient, type Grant } from '../http.ts'
import { median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const BLOCK = 16

/** What no implementation on bubblewrap can do without: the namespaces and the mounts, around a program that does nothing. */
const bareBubblewrap = async (): Promise<void> => {
  const child = spawn(
    'bwrap',
    [
      ...['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--as-pid-1', '--clearenv', '--ro-bind', '/usr', '/usr'],
      ...['--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64', '--symlink', 'usr/bin', '/bin'],
      ...['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--', '/bin/true'],
    ],
    { stdio: 'ignore', cwd: '/', uid: 65_534, gid: 65_534 },
  )
  const [code] = (await once(child, 'exit')) as [number]
  if (code !== 0) throw new Error(`bwrap: ${code}`)
}

export const needs: Needs = { local: [] }

/** `ensure` of a new thread on the local provider without a pool. */
export const run = async ({ local }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(local.brokerUrl, local.apiKey)
  let threads = 0
  const block = async (): Promise<number> => {
    const grants: Grant[] = []
    const times = await timeEach(BLOCK, async () => {
      grants.push(await broker.ensure(`bench-local-${process.pid}-${threads++}`))
    })
    for (const grant of grants) await broker.release(grant.session_id)
    return median(times)
  }
  // Broker and agent have been compiled by then, as those of a service are.
  for (let i = 0; i < 4; i++) await block()
  const ours: number[] = []
  const bare: number[] = []
  for (let i = 0; i < 5; i++) {
    ours.push(await block())
    bare.push(median(await timeEach(BLOCK, bareBubblewrap)))
  }
  const p50 = median(ours)
  return [
    {
      row: 'ensure of a new thread, local (bwrap), no pool, p50',
      measured: `${round(p50)} ms`,
      comparison: `bwrap around /bin/true, through child_process.spawn ${round(median(bare))} ms`,
      must: '≤ 15 ms',
      stretch: '≤ 8 ms',
      passed: p50 <= 15,
      figures: { ours: p50, bare: median(bare) },
    },
  ]
}
