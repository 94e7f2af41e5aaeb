import { spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { check } from './case.ts'
import { report, runCases } from './run.ts'
import { Target } from './target.ts'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))

/** A broker that has no profile of anybody's. */
const withoutProfiles = async (): Promise<string> => {
  const server = createServer((_, response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { code: 'INVALID_REQUEST', message: 'profile: there is no profile "x"; there are: default' } }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

test('cases that need a profile which the broker does not have are skipped, with the reason', async () => {
  const target = new Target({ broker: await withoutProfiles(), key: 'k', mode: 'direct' })
  const cases = [
    check('1-1', 'works', async () => {}),
    check('1-1, 1-2', 'needs a profile', async (t) => void (await t.ensure({ profile: 'conformance-small' }))),
    check('1-3', 'is refused', async (t) => void (await t.ensure())),
  ]
  const outcomes = await runCases(cases, target)
  expect(outcomes.map(({ failure, skipped }) => [failure !== null, skipped !== null])).toEqual([
    [false, false],
    [false, true],
    [true, false],
  ])
  const text = report(outcomes)
  expect(text).toMatch(/^skipped {2}\[1-1, 1-2\] needs a profile .*\n {8}the broker has no profile conformance-small;/m)
  expect(text).toMatch(/passed by number: 1-1\nfailed by number: 1-3\n1 passed, 1 failed, 1 skipped$/)
})

test('the command says how it is called', () => {
  const { BOXOFFICE_API_KEY: _, ...env } = process.env
  const run = (...args: string[]) => spawnSync(process.execPath, [MAIN, ...args], { env, encoding: 'utf8' })
  expect(run('--help')).toMatchObject({ status: 0, stdout: expect.stringContaining('usage: npm run conformance --') })
  expect(run('--nope')).toMatchObject({ status: 2, stderr: expect.stringMatching(/^conformance: .*--nope.*\n\nusage: /) })
  expect(run()).toMatchObject({ status: 2, stderr: expect.stringMatching(/^conformance: no key: .*boxoffice env/) })
})
