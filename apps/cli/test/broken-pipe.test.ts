import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

test.each([
  ['boxoffice', ['--help']],
  ['boxoffice', ['cp', '--help']],
  ['sbs', ['--help']],
])('%s %j ends without a word when nobody reads it', async (name, args) => {
  const child = spawn(resolve(import.meta.dirname, '../bin', name), args, { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  expect([...(await once(child, 'close')), said]).toEqual([141, null, ''])
})
