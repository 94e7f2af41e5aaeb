import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type FileAnswer, FileHelper, type FileRequest } from './file-helper.ts'

/** At once; more callers wait for their turn. */
const MAX_HELPERS = 4

/** Where the set-up puts the supervisor; the agent takes it from there, too. Where npm has installed it, it is in a package of its own. */
const SHIPPED = ['../../../supervisor/bin/supervisor', '../../../supervisor/target/release/supervisor']

/** Some helpers with one supervisor: started when there is work, kept for more. */
export class FileHelpers {
  readonly #path: string
  readonly #idle: FileHelper[] = []
  readonly #queue: (() => void)[] = []
  #busy = 0

  constructor(path: string) {
    this.#path = path
  }

  async ask(request: FileRequest, body?: Uint8Array): Promise<FileAnswer> {
    if (this.#busy >= MAX_HELPERS) await new Promise<void>((resolve) => this.#queue.push(resolve))
    else this.#busy++
    let helper = this.#idle.pop()
    while (helper?.ended) helper = this.#idle.pop()
    helper ??= new FileHelper(this.#path)
    try {
      return await helper.ask(request, body)
    } finally {
      if (!helper.ended) this.#idle.push(helper)
      const next = this.#queue.shift()
      if (next === undefined) this.#busy--
      else next()
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((helper) => helper.stop()))
  }
}

const helpers = new Map<string, FileHelpers>()

/** Of this process: the functions here have no state, what they start is shared. */
export const fileHelpers = (supervisorPath?: string): FileHelpers => {
  const path = supervisorPath ?? process.env.BOXOFFICE_SUPERVISOR_PATH ?? shipped()
  const known = helpers.get(path) ?? new FileHelpers(path)
  helpers.set(path, known)
  return known
}

export const stopFileHelpers = async (): Promise<void> => {
  const all = [...helpers.values()]
  helpers.clear()
  await Promise.all(all.map((each) => each.stop()))
}

const shipped = (): string => {
  const paths = SHIPPED.map((path) => fileURLToPath(new URL(path, import.meta.url)))
  return paths.find((path) => existsSync(path)) ?? installed() ?? paths[0] ?? 'supervisor'
}

const installed = (): string | undefined => {
  try {
    return createRequire(import.meta.url).resolve(`@boxoffice/supervisor-${process.platform}-${process.arch}/bin/supervisor`)
  } catch {
    return undefined
  }
}
