import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** Any uid without rights will do to see whether the kernel lets it make namespaces. */
const TRIAL_UID = 2_000_000_000

/** bubblewrap's path when it works here, else why it does not and what to do. */
export const findBubblewrap = async (asRoot: boolean): Promise<{ path: string } | { reason: string }> => {
  const path = await inPath('bwrap')
  if (path === undefined) return { reason: 'bubblewrap is not installed; install the package "bubblewrap"' }
  const trial = [
    '--unshare-user',
    '--disable-userns',
    '--unshare-pid',
    '--unshare-net',
    '--ro-bind',
    '/',
    '/',
    '--proc',
    '/proc',
    '--',
    '/bin/true',
  ]
  try {
    await run(path, trial, asRoot ? { uid: TRIAL_UID, gid: TRIAL_UID, cwd: '/' } : { cwd: '/' })
    return { path }
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim() || String(error)
    return { reason: `bubblewrap does not work here (${said}); unprivileged user namespaces must be allowed, and its version at least 0.8` }
  }
}

const inPath = async (name: string): Promise<string | undefined> => {
  for (const directory of (process.env.PATH ?? '/usr/bin').split(delimiter)) {
    const path = join(directory, name)
    if (
      await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return path
  }
  return undefined
}
