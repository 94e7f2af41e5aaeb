import { execFile } from 'node:child_process'

export type Ran = { status: number; stdout: string; stderr: string }

/** Runs a program with some variables and a home of its own, none of a proxy or of the npm of this host among them. */
export const runTool = (
  command: string,
  args: readonly string[],
  { home, env = {}, cwd = home }: { home: string; env?: Record<string, string>; cwd?: string },
): Promise<Ran> => {
  const own = Object.entries(process.env).filter(([name]) => !/_proxy$|^npm_/i.test(name))
  return new Promise((resolve) => {
    const child = execFile(
      command,
      args,
      { env: { ...Object.fromEntries(own), HOME: home, ...env }, cwd, timeout: 120_000 },
      (_, stdout, stderr) => resolve({ status: child.exitCode ?? -1, stdout, stderr }),
    )
    child.stdin?.end()
  })
}
