import { connect, type Session } from '@boxoffice/client'
import { type Browser, chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findChromium } from '../support/chromium.ts'
import { mirrorVariables, type PackageMirror, startPackageMirror } from '../support/package-mirror.ts'
import { API_KEY, MODES, type Stack, startStack } from '../support/stack.ts'

const GUARD_MS = 240_000
const PORT = 5173

const PAGE =
  '<!doctype html><title>app</title><link rel="icon" href="data:,"><p id="says"></p><script type="module" src="/main.js"></script>'
/** A module that takes its next version by itself; what the page has been given stays as long as it is not loaded anew. */
const moduleThatSays = (text: string): string => `document.querySelector('#says').textContent = ${JSON.stringify(text)}
import.meta.hot.accept()`

let browser: Browser
let mirror: PackageMirror
beforeAll(async () => {
  browser = await chromium.launch({ executablePath: findChromium(), timeout: GUARD_MS })
  mirror = await startPackageMirror()
})
afterAll(async () => {
  await browser?.close()
  await mirror?.[Symbol.asyncDispose]()
})

const startVite = async (stack: Stack): Promise<Session> => {
  const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('vite', {
    ...{ profile: 'network_basic', capabilities: ['ports', 'exec', 'fs_read', 'fs_write'] },
  })
  await session.files.upload('app/index.html', PAGE)
  await session.files.upload('app/main.js', moduleThatSays('first'))
  const { exitCode, stderr } = await session.exec('npm init -y && npm install --no-fund --no-audit vite@6.4.1', {
    cwd: 'app',
    timeoutSeconds: 240,
  })
  expect(exitCode, stderr).toBe(0)
  // No setting of Vite's: it serves requests to localhost alone, and reads that as its host.
  await session.processes.start('npx', { args: ['vite', '--port', String(PORT), '--strictPort'], cwd: 'app' })
  await expect.poll(async () => (await session.ports.list()).map(({ port }) => port), { timeout: GUARD_MS }).toContain(PORT)
  return session
}

test.each(MODES)(
  '[sandbox-sdk#917, Daytona#3899] an app of Vite is shown as it is, and changes without being loaded anew (%s)',
  async (mode) => {
    await using stack = await startStack({ provider: 'local', mode, agentVariables: mirrorVariables(mirror) })
    const session = await startVite(stack)
    await session.ports.expose(PORT)
    const { url } = await session.ports.link(PORT)
    const page = await (await browser.newContext()).newPage()
    const connected = page.waitForEvent('console', {
      predicate: (message) => message.text().includes('[vite] connected'),
      timeout: GUARD_MS,
    })
    await page.goto(url, { timeout: GUARD_MS })
    await page.waitForSelector('#says >> text=first', { timeout: GUARD_MS })
    await connected
    await page.evaluate('globalThis.isTheSamePage = true')
    await session.files.upload('app/main.js', moduleThatSays('second'))
    await page.waitForSelector('#says >> text=second', { timeout: GUARD_MS })
    expect(await page.evaluate('globalThis.isTheSamePage')).toBe(true)
    const reloaded = await page.reload({ timeout: GUARD_MS })
    expect(reloaded?.status()).toBe(200)
    await page.waitForSelector('#says >> text=second', { timeout: GUARD_MS })
    await page.context().close()
    await session.release()
  },
  GUARD_MS,
)
