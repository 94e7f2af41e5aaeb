import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Session } from '@boxoffice/client'
import type { Figures, Task } from './client.ts'

/** Runs the program of the clients once, in a process of its own. */
export type Client = (task: Task) => Promise<Figures>

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
/** As their imports find each other. */
const FILES = ['network/client.ts', 'network/origin.ts', 'statistics.ts']

/** On this machine, with no proxy. `authority`: a PEM file that it trusts. */
export const clientOutside =
  (authority?: string): Client =>
  async (task) => {
    const env = authority === undefined ? {} : { NODE_EXTRA_CA_CERTS: authority }
    const { stdout } = await promisify(execFile)(process.execPath, [pathOf('client.ts'), JSON.stringify(task)], { env })
    return JSON.parse(stdout) as Figures
  }

/** Puts this Node and the programs of this directory into a sandbox, below `/workspace`. */
export const furnish = async ({ files }: Session): Promise<void> => {
  await files.upload('node', await readFile(process.execPath), { mode: '755' })
  for (const name of FILES) await files.upload(name, await readFile(pathOf(`../${name}`)))
}

/** In a sandbox that has been furnished, with whatever its programs are told of a proxy. */
export const clientInside =
  (session: Session): Client =>
  async (task) => {
    const { stdout } = await session.exec.orThrow(['./node', 'network/client.ts', JSON.stringify(task)])
    return JSON.parse(stdout) as Figures
  }

/** The figure of a task that had no errors; else it throws. */
export const figure = async (client: Client, task: Task, which: 'p50' | 'rate'): Promise<number> => {
  const figures = await client(task)
  if (figures.errors > 0) throw new Error(`${figures.errors} errors of ${JSON.stringify(task)}`)
  return figures[which]
}
