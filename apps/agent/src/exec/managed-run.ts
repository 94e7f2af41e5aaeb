/**
 * A managed process is one process of the supervisor after another: each run has an id of its own there, which no exec can have
 * (a dot is not for clients) and which says whose it is.
 */
const RUN = /^p\.(.+)\.([0-9a-z]+)$/

let last = 0

/** An id for the next run: later ones are greater, also over restarts of the agent. */
export const newRun = (processId: string): string => {
  last = Math.max(last + 1, Date.now())
  return `p.${processId}.${last.toString(36)}`
}

export const isRun = (id: string): boolean => RUN.test(id)

export const processIdOf = (run: string): string => RUN.exec(run)?.[1] ?? run
