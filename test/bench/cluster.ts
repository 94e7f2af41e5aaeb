import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { ROOT } from '../e2e/support/program.ts'

/** Runs deploy/cluster/cluster.sh; its words go to stderr, where the bench says what it does. */
const cluster = async (command: 'cached' | 'runs' | 'up' | 'down'): Promise<boolean> => {
  const child = spawn('sh', ['deploy/cluster/cluster.sh', command], { cwd: ROOT, stdio: ['ignore', 2, 2] })
  const [code] = (await once(child, 'close')) as [number | null]
  return code === 0
}

/** Whether the one-node Kubernetes can be started without a build of many minutes. */
export const isClusterCached = (): Promise<boolean> => cluster('cached')

/** The one-node Kubernetes: the one that runs, which stays, or one of the row's own. */
export const useCluster = async (): Promise<AsyncDisposable> => {
  const ran = await cluster('runs')
  if (!(await cluster('up'))) throw new Error('the cluster did not start; its words are above')
  return {
    async [Symbol.asyncDispose]() {
      if (!ran) await cluster('down')
    },
  }
}
