import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'

/** Runs kubectl of the one-node cluster (`npm run cluster`) and returns what it wrote. Throws with its words if it fails. */
export async function kubectl(args: readonly string[], input = ''): Promise<string> {
  const child = spawn('sh', ['deploy/cluster/cluster.sh', 'kubectl', ...args])
  child.stdin.end(input)
  const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${errors}`)
  return output
}

/** One object of the cluster, or undefined if there is none. */
export async function getObject<T>(kind: string, name: string): Promise<T | undefined> {
  const found = await kubectl(['get', kind, name, '--ignore-not-found', '-o', 'json'])
  return found === '' ? undefined : JSON.parse(found)
}
