import { readdirSync } from 'node:fs'
import { read } from '../../../../src/host/kernel-file.ts'

/** PID 1 of the sandbox that runs as this user, by its id on this machine. */
export const supervisorOf = (uid: number): number => {
  const isIt = (pid: string): boolean =>
    new RegExp(`^Uid:\\s+${uid}\\s`, 'm').test(read(`/proc/${pid}/status`)) &&
    read(`/proc/${pid}/cmdline`).startsWith('/.boxoffice/supervisor\0')
  const found = readdirSync('/proc').find((name) => /^\d+$/.test(name) && isIt(name))
  if (found === undefined) throw new Error(`no supervisor runs as ${uid}`)
  return Number(found)
}
