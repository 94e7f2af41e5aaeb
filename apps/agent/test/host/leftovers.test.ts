import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createHostPathMap } from '../../src/providers/local/host-path-map.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import { processesWith, until } from '../support/processes.ts'
import { run } from './support/exec.ts'
import { Host, silent } from './support/host.ts'

const cells = (['bubblewrap', 'none'] as const).flatMap((isolation) =>
  [
    ['torn', '{"id":'],
    ['empty', ''],
    ['of another format', '{"version":9}'],
    ['of another sandbox', undefined],
  ].map(([how, content]) => ({ isolation, how, content })),
)

test.each(cells)(
  'isolation $isolation: a sandbox whose state file is $how is ended at the start, and nothing else',
  async ({ isolation, content }) => {
    let host = await Host.start(({ path, installId }) => createLocalProvider({ dataDirectory: path, installId, isolation, log: silent }))
    try {
      const marks = ['lost', 'kept'].map((name) => `${name}-${randomBytes(8).toString('hex')}`)
      const [lost, kept] = [await host.ensure('s1'), await host.ensure('s2')]
      const begin = (sandbox: LiveSandbox, mark: string) => run(sandbox, `exec -a ${mark} sleep 1000 > /dev/null 2>&1 & disown`)
      await Promise.all([begin(lost, marks[0] as string), begin(kept, marks[1] as string)])
      await until('both run', () => marks.every((mark) => processesWith(mark).length > 0))
      const fileOf = ({ id }: LiveSandbox): string => join(host.dataDirectory, 'local', `${id}.json`)
      writeFileSync(fileOf(lost), content ?? readFileSync(fileOf(kept)))

      host = await host.restart()
      expect(existsSync(fileOf(lost))).toBe(false)
      await expect.poll(() => marks.map((mark) => processesWith(mark).length)).toEqual([0, 1])
      expect(host.find(lost.id).lost).toBeDefined()
      await host.manager.destroy(lost.id, 'failed')
      expect(await run(host.find(kept.id), 'echo still')).toMatchObject({ stdout: 'still\n' })
      await host.manager.destroy(kept.id, 'released')
      expect(await host.leftovers()).toEqual([])
    } finally {
      await host.close()
    }
  },
)

test.runIf(process.getuid?.() === 0)(
  'what agents that were killed had mounted is found again by the next one of their install, or goes; those of others stay',
  async () => {
    const root = await mkdtemp('/tmp/bxm-')
    const [mine, others] = [randomBytes(8).toString('hex'), randomBytes(8).toString('hex')]
    const mounts = (installId: string): number =>
      readFileSync('/proc/self/mounts', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` /run/boxoffice/${installId} `)).length
    try {
      const directories = ['first', 'second', 'theirs'].map((name) => join(root, name))
      for (const directory of directories) {
        await mkdir(directory)
        writeFileSync(join(directory, 'whose'), directory)
      }
      const [first, second, theirs] = directories as [string, string, string]
      const seenBy = (map: { path(path: string): string }, directory: string): string =>
        readFileSync(map.path(join(directory, 'whose')), 'utf8')

      expect(seenBy(await createHostPathMap(first, mine), first)).toBe(first)
      const foreign = await createHostPathMap(theirs, others)
      // Each was killed: none has closed what it had.
      expect(seenBy(await createHostPathMap(first, mine), first)).toBe(first)
      expect([mounts(mine), mounts(others)]).toEqual([1, 1])
      const moved = await createHostPathMap(second, mine)
      expect(seenBy(moved, second)).toBe(second)
      expect([mounts(mine), mounts(others)]).toEqual([1, 1])
      await rm(second, { recursive: true })
      await mkdir(second)
      const anew = await createHostPathMap(second, mine)
      expect(mounts(mine)).toBe(1)
      await anew.close()
      expect([mounts(mine), mounts(others), existsSync(`/run/boxoffice/${mine}`)]).toEqual([0, 1, false])
      expect(seenBy(foreign, theirs)).toBe(theirs)
      await foreign.close()
      expect(mounts(others)).toBe(0)
    } finally {
      await rm(root, { recursive: true, force: true })
    }
  },
)
