import { readdirSync, readFileSync } from 'node:fs'

/** The processes of this machine whose command line contains a marker. */
export const processesWith = (marker: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const state = /^State:\s+(\S)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1]
        return state !== 'Z' && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(marker)
      } catch {
        return false
      }
    })
    .map(Number)

/** The id of the process above one; undefined when it has ended. */
export const parentOf = (pid: number): number | undefined => {
  try {
    return Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  } catch {
    return undefined
  }
}

/** Waits until a condition holds; fails with what it waited for. The limit is a guard against hanging. */
export const until = async (what: string, condition: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> => {
  const end = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
