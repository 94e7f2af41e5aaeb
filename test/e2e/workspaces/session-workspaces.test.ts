import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { closeWorkspaces, createSessionSandbox, getSessionSandbox, readSessionFile, writeSessionFile } from '@boxoffice/client/workspaces'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../support/traces.ts'
import { inAnotherProcess, makeRoot, sessionWorkspacesSuite } from './session-workspaces.ts'

sessionWorkspacesSuite('local')

const PROGRAM = fileURLToPath(new URL('../support/workspace-process.ts', import.meta.url))
const ENV = { BOXOFFICE_URL: '', BOXOFFICE_API_KEY: '', BOXOFFICE_PROVIDER: 'local' }

describe('without an endpoint', { timeout: 180_000 }, () => {
  const rootTest = test.extend<{ root: string }>({
    // biome-ignore lint/correctness/noEmptyPattern: vitest reads the pattern
    root: async ({}, use) => {
      const root = await makeRoot()
      for (const [name, value] of Object.entries(ENV)) vi.stubEnv(name, value)
      await use(root)
      await closeWorkspaces()
      vi.unstubAllEnvs()
      await rm(join(root, '..'), { recursive: true, force: true })
    },
  })

  rootTest('[1-01, 1-20] a Boxoffice is started on demand, once for all sessions, and runs them', async ({ root }) => {
    const made = await Promise.all([1, 2, 3].map(() => createSessionSandbox({ workspaceRoot: root })))
    for (const [id] of made) await writeSessionFile(id, 'name', id, { workspaceRoot: root })
    const results = await Promise.all(made.map(([, sandbox]) => sandbox.execute("print(open('name').read())")))
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(made.map(([id]) => id))
    expect((await dataDirectories(root)).length).toBe(1)
    await closeWorkspaces()
    expect(await dataDirectories(root)).toEqual([])
    // The next execution starts another one.
    expect((await made[0]?.[1].execute("print(open('name').read())"))?.stdout.trim()).toBe(made[0]?.[0])
  })

  rootTest('[1-08] two programs with one root, and a third after them, go on with the same files', async ({ root }) => {
    const made = await inAnotherProcess(root, 'echo one > notes', { env: ENV })
    const mine = await getSessionSandbox(made.id, { workspaceRoot: root, runtime: 'shell' })
    expect((await mine.execute('echo two >> notes; cat notes')).stdout).toBe('one\ntwo\n')
    expect((await inAnotherProcess(root, 'echo three >> notes', { id: made.id, env: ENV })).id).toBe(made.id)
    expect((await readSessionFile(made.id, 'notes', { workspaceRoot: root })).toString()).toBe('one\ntwo\nthree\n')
  })

  rootTest('[1-08] what a program started ends with it, even when it is killed', async ({ root }) => {
    const child: ChildProcess = spawn(process.execPath, [PROGRAM, root, 'echo x > file; cat file', '', 'stay'], {
      env: { ...process.env, ...ENV },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    if (child.stdout === null) throw new Error('no stdout')
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    expect(JSON.parse(line)).toMatchObject({ stdout: 'x\n' })
    expect((await dataDirectories(root)).length).toBe(1)
    child.kill('SIGKILL')
    await eventually('its Boxoffice is gone with its data', async () => (await dataDirectories(root)).length === 0)
    const { id } = JSON.parse(line) as { id: string }
    expect((await readSessionFile(id, 'file', { workspaceRoot: root })).toString()).toBe('x\n')
  })
})

/** Of those that were started for workspaces below `root`. */
const dataDirectories = async (root: string): Promise<string[]> => {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith('boxoffice-workspaces-'))
  const configs = await Promise.all(names.map((name) => readFile(join(tmpdir(), name, 'config.json'), 'utf8').catch(() => '')))
  return names.filter((_, at) => configs[at]?.includes(root))
}
