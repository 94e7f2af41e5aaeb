import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { listening } from '../support/listening.ts'
import { ORIGIN_CERTIFICATE, PROXY_CERTIFICATE, proxies, sendConnect } from './support/proxy.ts'
import { runTool } from './support/run-tool.ts'

const start = proxies()
let directory = ''
let [originCa, proxyCa] = ['', '']

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'egress-tools-'))
  originCa = join(directory, 'origin.pem')
  proxyCa = join(directory, 'proxy.pem')
  writeFileSync(originCa, ORIGIN_CERTIFICATE.cert)
  writeFileSync(proxyCa, PROXY_CERTIFICATE.cert)
})
afterAll(() => rm(directory, { recursive: true }))

const run = (command: string, args: readonly string[], env: Record<string, string> = {}) => runTool(command, args, { home: directory, env })

const says: RequestListener = (incoming, response) => response.end(`${incoming.method} ${incoming.headers.host} ${incoming.url}\n`)

describe('curl', () => {
  const curl = (...args: string[]) => run('curl', ['--silent', '--show-error', '--max-time', '30', ...args])

  test('reaches https and http by http_proxy, https_proxy and SOCKS5', async () => {
    await using plain = await listening(createHttpServer(says))
    await using secure = await listening(createHttpsServer(ORIGIN_CERTIFICATE, says))
    const { url, port } = await start({ allow: ['origin.example', 'origin.example:80'] }, { ports: { 80: plain.port, 443: secure.port } })
    const env = { http_proxy: url, https_proxy: url, HTTPS_PROXY: url }
    const targets = ['http://origin.example/one', 'https://origin.example/two']
    const answers = 'GET origin.example /one\nGET origin.example /two\n'
    const byVariables = await run('curl', ['-sS', '--cacert', originCa, ...targets], env)
    expect(byVariables).toEqual({ status: 0, stdout: answers, stderr: '' })
    expect(await curl('--proxy', `socks5h://127.0.0.1:${port}`, '--cacert', originCa, ...targets)).toMatchObject({
      status: 0,
      stdout: answers,
    })
    expect(await curl('--proxytunnel', '--proxy', url, targets[0] ?? '')).toMatchObject({ status: 0, stdout: 'GET origin.example /one\n' })
  })

  test('uploads 8 MiB and gets them back through TLS that is opened', async () => {
    await using secure = await listening(createHttpsServer(ORIGIN_CERTIFICATE, (incoming, response) => incoming.pipe(response)))
    const { url } = await start({ rules: [{ host: 'origin.example' }] }, { ports: { 443: secure.port } })
    const [sent, got] = [join(directory, 'sent'), join(directory, 'got')]
    writeFileSync(sent, Buffer.alloc(8 * 1024 * 1024, 'some bytes of a file, '))
    const args = ['--proxy', url, '--cacert', proxyCa, '--data-binary', `@${sent}`, '--output', got, 'https://origin.example/']
    expect(await curl(...args)).toMatchObject({ status: 0, stderr: '' })
    expect((await readFile(got)).equals(await readFile(sent))).toBe(true)
  })

  test('is told why not', async () => {
    const { url, port } = await start({ allow: ['origin.example'] })
    const plain = await curl('--proxy', url, '--include', 'http://denied.example/')
    expect(plain.stdout).toMatch(/^HTTP\/1\.1 403 Forbidden\r\nX-Boxoffice-Egress: denied/)
    expect(plain.stdout).toContain('"code":"not_allowed","host":"denied.example"')
    const tunnel = await curl('--proxy', url, 'https://denied.example/')
    expect(tunnel).toMatchObject({ status: 56, stderr: expect.stringContaining('403') })
    expect(await curl('--proxy', `socks5h://127.0.0.1:${port}`, 'https://denied.example/')).toMatchObject({ status: 97 })
    expect(await curl('--proxy', url, 'https://2130706433/')).toMatchObject({ status: 56, stderr: expect.stringContaining('403') })
  })
})

test('urllib of Python reaches http and https by the variables', async () => {
  await using plain = await listening(createHttpServer(says))
  await using secure = await listening(createHttpsServer(ORIGIN_CERTIFICATE, says))
  const { url } = await start(
    { allow: ['origin.example:80'], rules: [{ host: 'origin.example' }] },
    { ports: { 80: plain.port, 443: secure.port } },
  )
  const script = [
    'import sys, urllib.request, urllib.error',
    'for url in sys.argv[1:]:',
    '  try: print(urllib.request.urlopen(url, timeout=30).read().decode(), end="")',
    '  except urllib.error.HTTPError as error: print(error.code, error.headers["X-Boxoffice-Egress"])',
  ].join('\n')
  const targets = ['http://origin.example/a', 'https://origin.example/b', 'http://denied.example/']
  const { stdout, stderr } = await run('python3', ['-c', script, ...targets], { http_proxy: url, https_proxy: url, SSL_CERT_FILE: proxyCa })
  expect(stderr).toBe('')
  expect(stdout).toBe('GET origin.example /a\nGET origin.example /b\n403 denied\n')
})

test('git clones over https through the tunnel', async () => {
  const [source, bare, clone] = [join(directory, 'source'), join(directory, 'repository.git'), join(directory, 'clone')]
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { stdio: 'pipe' })
  git('init', '--quiet', '--initial-branch', 'main', source)
  writeFileSync(join(source, 'file'), 'contents of the file')
  git('-C', source, 'add', '.')
  git('-C', source, 'commit', '--quiet', '--message', 'first')
  git('clone', '--quiet', '--bare', source, bare)
  git('-C', bare, 'update-server-info')
  await using secure = await listening(
    createHttpsServer(ORIGIN_CERTIFICATE, async (incoming, response) => {
      const path = new URL(incoming.url ?? '', 'https://origin.example').pathname
      const bytes = await readFile(join(directory, path)).catch(() => undefined)
      response.writeHead(bytes === undefined ? 404 : 200).end(bytes)
    }),
  )
  const { url, decisions } = await start({ allow: ['origin.example'] }, { ports: { 443: secure.port } })
  const env = { https_proxy: url, GIT_SSL_CAINFO: originCa, GIT_TERMINAL_PROMPT: '0' }
  expect(await run('git', ['clone', '--quiet', 'https://origin.example/repository.git', clone], env)).toMatchObject({
    status: 0,
    stderr: '',
  })
  expect(await readFile(join(clone, 'file'), 'utf8')).toBe('contents of the file')
  expect(decisions.every(({ allowed }) => allowed)).toBe(true)
  const denied = await run('git', ['clone', 'https://denied.example/repository.git', `${clone}2`], env)
  expect(denied).toMatchObject({ status: 128, stderr: expect.stringContaining('403') })
})

test.each([
  ['carried as it is', { allow: ['origin.example'] }, ORIGIN_CERTIFICATE],
  ['opened', { rules: [{ host: 'origin.example' }] }, PROXY_CERTIFICATE],
])('a WebSocket goes through TLS that is %s', async (_, policy, { cert }) => {
  await using secure = await listening(createHttpsServer(ORIGIN_CERTIFICATE))
  const server = new WebSocketServer({ server: secure.server })
  server.on('connection', (socket) => socket.on('message', (message) => socket.send(`echo ${message}`)))
  const { connect } = await start(policy, { ports: { 443: secure.port } })
  const socket = await connect()
  await sendConnect(socket, 'origin.example:443')
  const client = new WebSocket('wss://origin.example/', {
    createConnection: () => connectTls({ socket, servername: 'origin.example', ca: cert }),
  })
  const heard = await new Promise((resolve, reject) => {
    client
      .on('open', () => client.send('hello'))
      .on('message', (message) => resolve(String(message)))
      .on('error', reject)
  })
  expect(heard).toBe('echo hello')
  client.terminate()
  server.close()
})
