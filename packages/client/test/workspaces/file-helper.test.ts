import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { readSessionFile, writeSessionFile } from '@boxoffice/client/workspaces'
import { expect } from 'vitest'
import { workspaceTest } from './support/workspace-test.ts'

/** The file helpers of this process. */
const helpers = (): number[] =>
  execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.endsWith(' --files'))
    .map((line) => Number.parseInt(line, 10))

workspaceTest('[1-56] a helper is kept for the next call, and made anew when it was killed', async ({ workspace }) => {
  const { id, options } = workspace
  await writeSessionFile(id, 'file', 'x', options)
  const [first, ...others] = helpers()
  expect(others).toEqual([])
  await readSessionFile(id, 'file', options)
  expect(helpers()).toEqual([first])
  process.kill(first ?? 0, 'SIGKILL')
  // The first call after it may still meet the end of the old one; none waits for ever.
  await readSessionFile(id, 'file', options).catch((error: Error) => expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' }))
  expect((await readSessionFile(id, 'file', options)).toString()).toBe('x')
  expect(helpers()).not.toContain(first)
})

workspaceTest('[1-56] many calls at once share few helpers, and each gets its own answer', async ({ workspace }) => {
  const { id, options } = workspace
  const numbers = Array.from({ length: 200 }, (_, n) => String(n))
  await Promise.all(numbers.map((n) => writeSessionFile(id, n, n.repeat(1000), options)))
  const read = await Promise.all(numbers.map(async (n) => (await readSessionFile(id, n, options)).toString()))
  expect(read).toEqual(numbers.map((n) => n.repeat(1000)))
  expect(helpers().length).toBeLessThanOrEqual(4)
})

workspaceTest('[1-56] without a helper nothing is read: the error names the setting', async ({ workspace }) => {
  const { id, options } = workspace
  for (const supervisorPath of ['/nowhere/supervisor', '/etc/passwd'])
    for (let again = 0; again < 2; again++)
      await expect(readSessionFile(id, 'file', { ...options, supervisorPath })).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringContaining(`supervisorPath: ${supervisorPath} cannot be started`),
      })
})

workspaceTest('a program with a helper ends when it is done', async ({ workspace }) => {
  const { id, root, options } = workspace
  const program = `
    import { writeSessionFile } from '${import.meta.resolve('@boxoffice/client/workspaces')}'
    await writeSessionFile('${id}', 'file', 'x', { workspaceRoot: '${root}' })`
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { timeout: 60_000 })
  expect((await readSessionFile(id, 'file', options)).toString()).toBe('x')
})
