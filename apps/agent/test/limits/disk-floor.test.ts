import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'
import { pack } from 'tar-stream'
import { expect, test } from 'vitest'
import { createDiskFloor, type DiskFloor } from '../../src/host/disk-floor.ts'
import { TestDataplane } from '../support/dataplane.ts'
import { eventually } from '../support/eventually.ts'

const MiB = 1024 ** 2

test('what is kept free is refused for more than the disk has; a directory that is not here counts for nothing', () => {
  const floor = createDiskFloor({ dataDirectory: '/', engineDirectory: () => '/of/another/machine' })
  expect(() => floor.require('a', 'sandbox', 2 ** 60)).toThrow(
    expect.objectContaining({ code: 'QUOTA_EXCEEDED', retryAfter: expect.any(Number), details: { reason: 'disk_low' } }),
  )
  expect(createDiskFloor({ dataDirectory: '/of/another/machine', engineDirectory: () => undefined }).shortage()).toBeUndefined()
})

test.each(['', '&archive=tar'])('a body without a length is refused as soon as the disk is low; nothing of it is left%s', async (query) => {
  let looks = 0
  const disk: DiskFloor = {
    require() {
      if (++looks > 2) throw new BoxofficeError('QUOTA_EXCEEDED', 'no space is left', { retryAfter: 10, details: { reason: 'disk_low' } })
    },
    shortage: () => undefined,
  }
  await using dp = await TestDataplane.start({ disk })
  const answer = Promise.withResolvers<[number | undefined, string | undefined]>()
  const sent = request(`${dp.base}/files/upload?path=grows${query}`, { method: 'POST', headers: { Authorization: `Bearer ${dp.token}` } })
  sent.on('error', answer.reject)
  sent.on('response', (response) => answer.resolve([response.statusCode, response.headers['retry-after']]))
  // A tar whose one entry is longer than what is sent of it.
  if (query !== '') {
    const archive = pack()
    archive.entry({ name: 'entry', size: 512 * MiB })
    const [header] = (await once(archive, 'data')) as [Buffer]
    sent.write(header)
  }
  const piece = Buffer.alloc(MiB)
  const more = (): void => void (looks <= 2 && sent.write(piece, more))
  more()
  expect(await answer.promise).toEqual([507, '10'])
  sent.on('error', () => {}).destroy()
  expect(looks).toBe(3)
  await eventually(async () => expect(await readdir(dp.sandbox.workspacePath, { recursive: true })).toEqual(query === '' ? [] : ['grows']))
})
