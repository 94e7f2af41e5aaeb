import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { connect, type Session } from '@boxoffice/client'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { brokerApi } from '../support/api.ts'
import { findChromium } from '../support/chromium.ts'
import { BOXOFFICE } from '../support/program.ts'
import { reservePort } from '../support/reserve-port.ts'
import { API_KEY, MODES, type Stack, startStack } from '../support/stack.ts'
import { getPreview } from './get-preview.ts'

const GUARD_MS = 120_000
const PORT = 8123

let browser: Browser
beforeAll(async () => {
  browser = await chromium.launch({ executablePath: findChromium(), timeout: GUARD_MS })
})
afterAll(() => browser.close())

/** A session in which the application listens. */
const startApp = async (stack: Stack, thread: string): Promise<Session> => {
  const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread, { capabilities: ['ports', 'exec', 'fs_write'] })
  await session.files.upload('app.py', await readFile(join(import.meta.dirname, 'app.py')))
  await session.processes.start('python3', { args: ['app.py', String(PORT)], restart: 'always' })
  await expect.poll(async () => (await session.ports.list()).map(({ port }) => port)).toContain(PORT)
  return session
}

const shown = async (page: Page): Promise<Record<string, string>> => {
  await page.waitForFunction('document.body?.textContent?.startsWith("{")', undefined, { timeout: GUARD_MS })
  return JSON.parse((await page.textContent('body')) ?? '') as Record<string, string>
}

test.each(MODES)('a person opens a preview by a link, and when the session has ended the browser forgets it (%s)', async (mode) => {
  await using stack = await startStack({ provider: 'local', mode })
  const session = await startApp(stack, `preview-${mode}`)
  const exposed = await session.ports.expose(PORT)
  expect(exposed).toMatchObject({ port: PORT, access: 'private', expiresAt: null })
  expect(await session.ports.exposed()).toEqual([exposed])
  const { url } = exposed
  const linked = await session.ports.link(PORT, { path: '/?from=link' })

  const stranger = await (await browser.newContext()).newPage()
  const refused = await stranger.goto(url, { timeout: GUARD_MS })
  expect(refused?.status()).toBe(401)
  expect(await stranger.textContent('h1')).toBe('This preview is private')

  // What unfurls links fetches them, and takes nothing.
  const { host, pathname } = new URL(linked.url)
  expect(await getPreview(pathname, { host })).toBe(200)
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(linked.url, { timeout: GUARD_MS })
  await page.waitForURL(`${url}/?from=link`, { timeout: GUARD_MS })
  expect(await shown(page)).toEqual({
    host: `localhost:${PORT}`,
    origin: `http://localhost:${PORT}`,
    cookie: 'app=1',
    body: 'sent',
    heard: 'hello',
    evil: `${url}/api`,
    readable: 'app=1',
  })
  expect((await context.cookies(url)).map(({ name, httpOnly, domain }) => ({ name, httpOnly, domain }))).toContainEqual({
    name: '__Host-bx_preview',
    httpOnly: true,
    domain: new URL(url).hostname,
  })

  await stranger.goto(linked.url, { timeout: GUARD_MS })
  await stranger.waitForSelector('h1 >> text=This preview is private', { timeout: GUARD_MS })

  // The end may come before the browser has been asked.
  const cut = page.evaluate(`new Promise((resolve) => {
    socket.onclose = () => resolve("cut")
    if (socket.readyState === WebSocket.CLOSED) resolve("cut")
  })`)
  await session.release()
  expect(await cut).toBe('cut')
  await expect.poll(async () => (await page.goto(url, { timeout: GUARD_MS }))?.status(), { timeout: GUARD_MS }).toBe(410)
  expect(await context.cookies(url)).toEqual([])
})

test('an agent that was killed serves what was exposed before', async () => {
  await using stack = await startStack({ provider: 'local' })
  const session = await startApp(stack, 'killed')
  const { token } = await brokerApi(stack.brokerUrl).ensure('killed', { requested_capabilities: ['ports'] })
  const { host } = new URL((await session.ports.expose(PORT)).url)
  const look = () => getPreview('/', { host, 'x-boxoffice-preview-token': token })
  expect(await look()).toBe(200)
  await stack.agent().kill('SIGKILL')
  await stack.startAgent()
  await expect.poll(look).toBe(200)
})

test('previews of an agent that has a domain of its own lead to it, whatever that of the broker is', async () => {
  const port = await reservePort()
  await using stack = await startStack({
    provider: 'local',
    brokerArgs: ['--preview-domain', 'preview.example.com'],
    agentArgs: ['--port', String(port), '--dataplane-url', `http://127.0.0.1:${port}`, '--preview-domain', `localhost:${port}`],
  })
  stack.proxy.setTarget(port)
  const session = await startApp(stack, 'own-domain')
  const exposed = await session.ports.expose(PORT)
  expect(exposed.url).toMatch(new RegExp(`^http://${PORT}-[a-z2-7]{20}\\.localhost:${port}$`))
  const page = await (await browser.newContext()).newPage()
  await page.goto((await session.ports.link(PORT)).url, { timeout: GUARD_MS })
  expect(await shown(page)).toMatchObject({ host: `localhost:${PORT}`, heard: 'hello' })
  await page.context().close()
})

test('the command line exposes a port, makes a link, and takes the host away', async () => {
  await using stack = await startStack({ provider: 'local' })
  await startApp(stack, 'commands')
  const boxoffice = async (...args: string[]): Promise<string> => {
    const env = { ...process.env, BOXOFFICE_API_KEY: API_KEY }
    const { stdout } = await promisify(execFile)(BOXOFFICE, ['ports', ...args, '--broker', stack.brokerUrl], { env })
    return stdout
  }
  const url = (await boxoffice('expose', 'commands', String(PORT))).trim()
  expect(await boxoffice('ls', 'commands')).toContain(url)
  const link = await boxoffice('link', 'commands', String(PORT), '--path', '/app')
  expect(link).toMatch(/#code=[\w-]{43}&return=%2Fapp\n$/)
  expect(link.startsWith(url)).toBe(true)
  await boxoffice('rm', 'commands', String(PORT))
  expect(await boxoffice('ls', 'commands')).not.toContain(url)
  expect(await getPreview('/', { host: new URL(url).host })).toBe(410)
})
