import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'

export const CHART = 'deploy/helm/boxoffice'

/** Runs the pinned helm, in the cluster's network where one runs, and returns what it wrote. Throws with its words if it fails. */
export async function helm(...args: readonly string[]): Promise<string> {
  const child = spawn('sh', ['deploy/cluster/cluster.sh', 'helm', ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  if (code !== 0) throw new Error(`helm ${args.join(' ')}: ${errors}`)
  return output
}

/** The chart as YAML, with these values. */
export const render = (namespace: string, values: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  helm(
    'template',
    'boxoffice',
    CHART,
    '--namespace',
    namespace,
    ...Object.entries(values).flatMap(([name, value]) => ['--set-json', `${name}=${JSON.stringify(value)}`]),
  )
