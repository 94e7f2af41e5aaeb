import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { chromium } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { bundleForBrowser } from '../../deploy/package/browser-bundle.ts'
import { findChromium } from '../e2e/support/chromium.ts'
import { API_KEY, startStack } from '../e2e/support/stack.ts'

const GUARD_MS = 120_000

/** A web server that has the page, and the credential for whoever is logged in there. */
const startSite = async (script: string, policy: () => string, credential: () => string) => {
  const server = createServer(({ url = '' }, response) => {
    const path = new URL(url, 'http://localhost').pathname
    const content = {
      '/': ['text/html', '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>'],
      '/page.js': ['text/javascript', script],
      '/credential': ['text/plain', credential()],
    }[path]
    if (content === undefined) return response.writeHead(404).end()
    const [type, text] = content
    return response.writeHead(200, { 'content-type': `${type}; charset=utf-8`, 'content-security-policy': policy() }).end(text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a page of another origin uses sandboxes in Chromium, directly and through the relay', async () => {
  let [policy, credential] = ['', '']
  const { code } = await bundleForBrowser(join(import.meta.dirname, 'browser/page.ts'))
  const site = await startSite(
    code,
    () => policy,
    () => credential,
  )
  const allow = ['--cors-origins', site]
  await using stack = await startStack({ provider: 'local', brokerArgs: allow, agentArgs: allow })
  const urls = [new URL(stack.brokerUrl).host, `127.0.0.1:${stack.proxy.port}`].flatMap((host) => [`http://${host}`, `ws://${host}`])
  policy = `default-src 'none'; script-src 'self'; img-src data:; connect-src 'self' ${urls.join(' ')}`
  credential = (await connect(stack.brokerUrl, { apiKey: API_KEY }).keys.create({ name: 'page', principal: 'visitor', role: 'user' })).key

  const browser = await chromium.launch({ executablePath: findChromium(), timeout: GUARD_MS })
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    const { url } = message.location()
    // Chromium tells of each 404.
    if (!url.endsWith('path=missing')) complaints.push(`${message.text()} ${url}`)
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  await page.goto(`${site}/?broker=${stack.brokerUrl}`, { timeout: GUARD_MS })
  const outcome: unknown = await page.evaluate('outcome')

  const used = {
    exec: { exitCode: 3, stdout: 'ünicode', stderr: 'err', kept: 'nicode', nextOffset: 8, ended: true },
    stdin: { stdout: 'a\nb\n', exitCode: 0 },
    shell: { shown: 'typed\r\ntyped\r\n', exitCode: 0 },
    files: {
      written: [8, 9, 3],
      text: 'ünicode',
      bytes: [1, 2, 3],
      part: 'nicode',
      ...{ hasEtag: true, size: 6 },
      list: ['new/stream', 'text'],
    },
    change: { type: 'create', path: 'watched/file', directory: false },
    abort: ['enough', 'enough'],
    error: { code: 'FILE_NOT_FOUND', status: 404, notFound: true, named: true },
    event: 'state',
  }
  expect(outcome).toMatchObject({
    never: { mode: 'direct', ...used, many: Array(8).fill(0) },
    always: { mode: 'relay', ...used },
    violations: [],
  })
  expect(complaints).toEqual([])
})
