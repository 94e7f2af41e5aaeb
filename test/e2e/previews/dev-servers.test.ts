import { connect, type Session } from '@boxoffice/client'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findChromium } from '../support/chromium.ts'
import { mirrorVariables, type PackageMirror, startPackageMirror } from '../support/package-mirror.ts'
import { API_KEY, MODES, type Mode, type Stack, startStack } from '../support/stack.ts'

const GUARD_MS = 240_000

/** An app, its files by path below `app`, and how a person starts its server. No setting says that it is behind a preview. */
type App = { packages: string; files: Record<string, string>; port: number; start: string[] }

/** A module that takes its next version by itself; what the page has been given stays as long as it is not loaded anew. */
const viteModule = (text: string): string => `document.querySelector('#says').textContent = ${JSON.stringify(text)}
import.meta.hot.accept()`

const VITE: App = {
  packages: 'vite@6.4.1',
  files: {
    'package.json': '{}',
    'index.html':
      '<!doctype html><title>app</title><link rel="icon" href="data:,"><p id="says"></p><script type="module" src="/main.js"></script>',
    'main.js': viteModule('first'),
  },
  port: 5173,
  start: ['vite', '--port', '5173', '--strictPort'],
}

const nextPage = (text: string): string => `'use client'
import { useState } from 'react'
export default function Page() {
  const [clicks, setClicks] = useState(0)
  return <main><p id="says">${text}</p><button onClick={() => setClicks(clicks + 1)}>{clicks}</button></main>
}`

const NEXT: App = {
  packages: 'next@16.4.6 react@19.3.1 react-dom@19.3.1',
  files: {
    'package.json': '{}',
    'app/layout.jsx': 'export default ({ children }) => <html><body>{children}</body></html>',
    'app/page.jsx': nextPage('first'),
  },
  port: 3000,
  start: ['next', 'dev', '--port', '3000'],
}

/** The compiler of Next takes more than the profiles that ship have. */
const PROFILE = { name: 'apps', network: 'on', memory_mb: 4096, pids_limit: 512, cpus: 2 }

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

const startApps = (mode: Mode): Promise<Stack> =>
  startStack({ provider: 'local', mode, config: { profiles: [PROFILE] }, agentVariables: mirrorVariables(mirror) })

/** Installs the app in a sandbox, starts its server, and shows it in a browser that has entered by a link. */
const show = async (url: string, { packages, files, port, start }: App): Promise<{ session: Session; page: Page }> => {
  const session = await connect(url, { apiKey: API_KEY }).session('app', {
    ...{ profile: PROFILE.name, capabilities: ['ports', 'exec', 'fs_read', 'fs_write'] },
  })
  for (const [path, content] of Object.entries(files)) await session.files.upload(`app/${path}`, content)
  const { exitCode, stderr } = await session.exec(`npm install --no-fund --no-audit ${packages}`, { cwd: 'app', timeoutSeconds: 240 })
  expect(exitCode, stderr).toBe(0)
  await session.processes.start('npx', { args: start, cwd: 'app', env: { NEXT_TELEMETRY_DISABLED: '1' } })
  await expect.poll(async () => (await session.ports.list()).map((listening) => listening.port), { timeout: GUARD_MS }).toContain(port)
  await session.ports.expose(port)
  const link = await session.ports.link(port)
  const page = await (await browser.newContext()).newPage()
  const loaded = page.waitForEvent('console', {
    predicate: (message) => /\[vite\] connected|\[HMR\] connected/.test(message.text()),
    timeout: GUARD_MS,
  })
  await page.goto(link.url, { timeout: GUARD_MS })
  await says(page, 'first')
  // Changes are told to who listens for them.
  await loaded
  return { session, page }
}

const says = async (page: Page, text: string): Promise<void> => {
  await page.waitForSelector(`#says >> text=${text}`, { timeout: GUARD_MS })
}

test.each(MODES)(
  '[sandbox-sdk#917, Daytona#3899] an app of Vite is shown as it is, and changes without being loaded anew (%s)',
  async (mode) => {
    await using stack = await startApps(mode)
    const { session, page } = await show(stack.brokerUrl, VITE)
    await page.evaluate('globalThis.isTheSamePage = true')
    await session.files.upload('app/main.js', viteModule('second'))
    await says(page, 'second')
    expect(await page.evaluate('globalThis.isTheSamePage')).toBe(true)
    const reloaded = await page.reload({ timeout: GUARD_MS })
    expect(reloaded?.status()).toBe(200)
    await says(page, 'second')
    await page.context().close()
    await session.release()
  },
  GUARD_MS,
)

test.each(MODES)(
  '[Daytona#3899] an app of Next is shown as it is, and keeps the state of its components when they change (%s)',
  async (mode) => {
    await using stack = await startApps(mode)
    const { session, page } = await show(stack.brokerUrl, NEXT)
    // A button that has not been hydrated does nothing.
    await expect
      .poll(async () => {
        await page.click('button')
        return Number(await page.textContent('button'))
      })
      .toBeGreaterThan(0)
    const clicks = await page.textContent('button')
    // Next takes a change for what the browser has where it comes while the first page is still being compiled: a person saves once more.
    let saves = 0
    await expect
      .poll(
        async () => {
          await session.files.upload('app/app/page.jsx', nextPage(`second, saved ${++saves} times`))
          return page.waitForSelector('#says >> text=second', { timeout: 10_000 }).catch(() => undefined)
        },
        { timeout: GUARD_MS },
      )
      .toBeDefined()
    expect(await page.textContent('button')).toBe(clicks)
    await page.context().close()
    await session.release()
  },
  GUARD_MS,
)
