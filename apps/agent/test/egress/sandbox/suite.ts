import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { EgressPolicy } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import type { EgressSettings } from '../../../src/egress/sandbox/sandbox-egress.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { type Ran, start } from '../../host/support/exec.ts'
import { Host, type OpenProvider, silent } from '../../host/support/host.ts'
import { collect } from '../../support/collect.ts'
import { eventually } from '../../support/eventually.ts'
import { type Listening, listening, tcp } from '../../support/listening.ts'
import { selfSigned } from '../support/certificates.ts'

const CERTIFICATE = selfSigned('origin.test', 'ruled.test')

type Policy = Parameters<typeof EgressPolicy.parse>[0]

/** Programs of a sandbox get out through the proxy, as far as their policy says, whatever the provider is. */
export const egressSuite = (open: OpenProvider): void => {
  let host: Host
  /** What the origins were asked for. */
  const urls: string[] = []
  /** What the broker has under the name `token`. */
  let secret = 'canary-1'
  let plain: Listening<ReturnType<typeof createServer>>
  let secure: Listening<ReturnType<typeof createTlsServer>>
  let flood: Awaited<ReturnType<typeof tcp>>
  beforeAll(async () => {
    const answer =
      (scheme: string): RequestListener =>
      ({ url = '', headers }, response) => {
        urls.push(url)
        response.end(`${scheme} ${url} ${headers.authorization ?? 'nobody'}`)
      }
    plain = await listening(createServer(answer('http')))
    flood = await tcp(() => {})
    secure = await listening(createTlsServer(CERTIFICATE, answer('https')))
    const sockets = new WebSocketServer({ server: secure.server })
    sockets.on('connection', (socket) => socket.on('message', (text) => socket.send(`echo ${String(text)}`)))
    // The origins of tests are on the loopback, which no policy opens.
    const settings: EgressSettings = {
      resolve: async () => ['127.0.0.1'],
      exceptions: [plain.port, secure.port, flood.port].map((port) => ({ host: 'origin.test', port })),
      authorities: () => [CERTIFICATE.cert],
      secretsOf: async (_, names) =>
        Object.fromEntries(names.flatMap((name) => (name === 'token' ? [[name, { value: secret, version: 1 }]] : []))),
    }
    host = await Host.start(open, undefined, silent, settings)
  })
  afterAll(async () => {
    await host.close()
    await plain[Symbol.asyncDispose]()
    await secure[Symbol.asyncDispose]()
    await flood[Symbol.asyncDispose]()
  })

  const make = (name: string, egress: Policy | null, network: 'off' | 'proxy' | 'on' = 'proxy'): Promise<LiveSandbox> =>
    host.ensure(`${name}-${Math.random()}`, { network, egress: egress === null ? null : EgressPolicy.parse(egress) })

  const run = async (sandbox: LiveSandbox, command: string): Promise<Ran> =>
    (await start(sandbox.link, command, { env: sandbox.environment ?? {} })).ended

  /** What its session was told of its connections. */
  const toldOf = (sandbox: LiveSandbox) =>
    host.journal
      .batch()
      .filter(({ type, sandbox_id: id }) => type === 'egress' && id === sandbox.id)
      .map(({ data }) => data)

  const curl = (url: string, ...more: string[]): string => `curl -sS --max-time 30 ${more.join(' ')} '${url}'`

  test('curl, Python and git get to what is allowed, by HTTP and HTTPS', async () => {
    const sandbox = await make('tools', {})
    expect(await run(sandbox, curl(`http://origin.test:${plain.port}/a?b`))).toMatchObject({ stdout: 'http /a?b nobody', stderr: '' })
    expect(await run(sandbox, curl(`https://origin.test:${secure.port}/a`, '-k'))).toMatchObject({ stdout: 'https /a nobody', stderr: '' })
    const python = `import urllib.request as u; print(u.urlopen("http://origin.test:${plain.port}/p").read().decode())`
    expect(await run(sandbox, `python3 -c '${python}'`)).toMatchObject({ stdout: 'http /p nobody\n', stderr: '' })
    await run(sandbox, `git ls-remote http://origin.test:${plain.port}/r`)
    expect(urls).toContain('/r/info/refs?service=git-upload-pack')
  })

  test('everything else is refused with a code, and told to the session once', async () => {
    const sandbox = await make('refused', { allow: ['allowed.test'] })
    for (let n = 0; n < 3; n++) {
      const { stdout, stderr } = await run(sandbox, curl('https://secret.test/', '-v'))
      expect(stderr).toMatch(/< HTTP\/1\.1 403/)
      expect(stderr.toLowerCase()).toContain('< x-boxoffice-egress: denied')
      expect(stdout).toBe('')
    }
    expect(JSON.parse((await run(sandbox, curl('http://secret.test/'))).stdout)).toMatchObject({ code: 'not_allowed', host: 'secret.test' })
    expect(toldOf(sandbox)).toMatchObject([
      { allowed: false, code: 'not_allowed', host: 'secret.test', port: 443, protocol: 'connect', times: 1 },
      { allowed: false, code: 'not_allowed', host: 'secret.test', port: 80, method: 'GET', times: 1 },
    ])
  })

  test.each(['127.0.0.1', 'localhost', '169.254.169.254', '2130706433', '10.0.0.1', '[::ffff:127.0.0.1]'])(
    'no policy leads to %s through the proxy',
    async (address) => {
      await using app = await tcp((socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nreached'))
      const sandbox = await make('private', { allow: ['*', `*:${app.port}`, `${address}:${app.port}`] })
      const url = `http://${address}:${app.port}/`
      const { stdout } = await run(sandbox, `env -u no_proxy -u NO_PROXY curl -sS --noproxy '' --max-time 30 '${url}'`)
      expect(stdout).not.toContain('reached')
      expect(JSON.parse(stdout)).toMatchObject({ code: 'private_address' })
    },
  )

  test('past the proxy there is no network', async () => {
    const sandbox = await make('past', {})
    const past = await run(
      sandbox,
      `env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy curl -sS --max-time 5 http://127.0.0.1:${plain.port}/`,
    )
    expect(past.stdout).toBe('')
    expect(past.code).not.toBe(0)
    const addresses = await run(sandbox, 'cat /proc/net/dev')
    expect(addresses.stdout).toContain('lo:')
    expect(addresses.stdout).not.toMatch(/eth\d/)
  })

  test('rules of a host open its TLS with an authority that its programs trust', async () => {
    const rules = [{ host: `ruled.test:${secure.port}`, methods: ['GET'], paths: ['/v1/**'] }]
    const sandbox = await make('rules', { rules, private_addresses: true })
    const exceptional = await run(sandbox, curl(`https://ruled.test:${secure.port}/v1/models`))
    // Its address is the loopback, and it is no exception.
    expect(exceptional.stderr).toMatch(/403/)
    const allowed = await make('rules-allowed', { rules: [{ ...rules[0], host: `origin.test:${secure.port}` }] as never })
    const url = `https://origin.test:${secure.port}`
    expect(await run(allowed, curl(`${url}/v1/models`))).toMatchObject({ stdout: 'https /v1/models nobody', stderr: '' })
    expect(JSON.parse((await run(allowed, curl(`${url}/v2`))).stdout)).toMatchObject({ code: 'path_not_allowed' })
    expect(JSON.parse((await run(allowed, curl(`${url}/v1/x`, '-X', 'DELETE'))).stdout)).toMatchObject({ code: 'method_not_allowed' })
    const strict = `import ssl, urllib.request as u; c = ssl.create_default_context(); c.verify_flags |= ssl.VERIFY_X509_STRICT
print(u.build_opener(u.ProxyHandler(), u.HTTPSHandler(context=c)).open("${url}/v1/py").read().decode())`
    expect(await run(allowed, `python3 -c '${strict}'`)).toMatchObject({ stdout: 'https /v1/py nobody\n', stderr: '' })
  })

  test('a rule sets a header with a secret that its sandbox never sees', async () => {
    const inject = [{ header: 'authorization', secret: 'token', template: 'Bearer {{secret}}' }]
    const target = { host: `origin.test:${secure.port}` }
    const sandbox = await make('secret', {
      rules: [
        { ...target, paths: ['/v1/**'], inject },
        { ...target, inject: [{ header: 'x-key', secret: 'absent' }] },
      ],
    })
    const url = `https://origin.test:${secure.port}`
    expect((await run(sandbox, curl(`${url}/v1/a`, '-H', "'Authorization: mine'"))).stdout).toBe('https /v1/a Bearer canary-1')
    expect(JSON.parse((await run(sandbox, curl(`${url}/other`))).stdout)).toMatchObject({ code: 'secret_missing' })
    const seen = await run(
      sandbox,
      'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; cat /.boxoffice/link/* 2>/dev/null',
    )
    expect(seen.stdout).not.toContain('canary-1')
    expect(JSON.stringify(host.journal.batch())).not.toContain('canary-1')
    secret = 'canary-2'
  })

  test('a variable stands for a secret, which has its place in headers to its hosts alone', async () => {
    secret = 'canary-3'
    const placeholders = [{ env: 'API_TOKEN', secret: 'token', hosts: [`origin.test:${secure.port}`] }]
    const sandbox = await make('placeholder', { placeholders, rules: [{ host: `other.test:${secure.port}` }] })
    const url = `https://origin.test:${secure.port}`
    const bearer = (to: string) => curl(to, '-H', '"Authorization: Bearer $API_TOKEN"')
    expect(await run(sandbox, bearer(`${url}/v1`))).toMatchObject({ stdout: 'https /v1 Bearer canary-3', stderr: '' })
    const user = await run(sandbox, curl(`${url}/v2`, '-u', '"robot:$API_TOKEN"'))
    expect(user.stdout).toBe(`https /v2 Basic ${Buffer.from('robot:canary-3').toString('base64')}`)
    // Not in paths, not without TLS, and not in what another variable has.
    const { stdout: sentinel } = await run(sandbox, 'printf %s "$API_TOKEN"')
    expect(sentinel).toMatch(/^[a-z0-9]{40}$/)
    expect((await run(sandbox, curl(`${url}/$API_TOKEN`).replaceAll("'", '"'))).stdout).toBe(`https /${sentinel} nobody`)
    expect((await run(sandbox, bearer(`http://origin.test:${plain.port}/v1`))).stdout).toBe(`http /v1 Bearer ${sentinel}`)
    expect((await run(sandbox, 'env; cat /proc/*/environ /.boxoffice/link/* 2>/dev/null')).stdout).not.toContain('canary-3')
    expect(JSON.stringify(host.journal.batch())).not.toContain('canary-3')
  })

  test('200 connections at once all get out', async () => {
    const sandbox = await make('crowd', {})
    const script = `import socket
all = []
for n in range(200):
  s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(b"GET http://origin.test:${plain.port}/ HTTP/1.1\\r\\nHost: origin.test:${plain.port}\\r\\n\\r\\n"); all.append(s)
print(sum(s.recv(12) == b"HTTP/1.1 200" for s in all))`
    expect(await run(sandbox, `python3 -c '${script}'`)).toMatchObject({ stdout: '200\n', stderr: '' })
  })

  test('connections of which nobody reads hold back their origins, and cost the agent less than 1 MiB each', async () => {
    const COUNT = 64
    const piece = Buffer.alloc(64 * 1024, 'flood')
    const open = new Set<Socket>()
    let sent = 0
    const pour = (socket: Socket): void => {
      if (socket.destroyed) return
      do sent += piece.length
      while (socket.write(piece))
    }
    flood.server.on('connection', (socket) => {
      open.add(socket.on('error', () => {}).on('drain', () => pour(socket)))
      socket.once('close', () => open.delete(socket)).resume()
      pour(socket)
    })
    collect()
    const before = process.memoryUsage().arrayBuffers
    const flooded = `origin.test:${flood.port}`
    const sandbox = await make('flood', {})
    const script = `import socket, sys
for n in range(${COUNT}):
  s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(b"CONNECT ${flooded} HTTP/1.1\\r\\nHost: ${flooded}\\r\\n\\r\\n")
  globals()[f"s{n}"] = s
print("open", flush=True); sys.stdin.read()`
    const held = await start(sandbox.link, `python3 -c '${script}'`, { env: sandbox.environment ?? {}, stdin: 'open' })
    await held.outputMatches(/open/)
    await eventually(async () => expect(open.size).toBe(COUNT))
    await eventually(async () => {
      const sentBefore = sent
      await delay(500)
      expect(sent).toBe(sentBefore)
    })
    collect()
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(COUNT * 1024 ** 2)
    // The others go on.
    const other = await make('beside-flood', {})
    expect((await run(other, curl(`http://origin.test:${plain.port}/beside`))).stdout).toBe('http /beside nobody')
    await host.manager.destroy(sandbox.id, 'released')
    await eventually(async () => expect(open.size).toBe(0))
  })

  test('a policy that changes counts at once', async () => {
    const sandbox = await make('changed', {})
    const url = `http://origin.test:${plain.port}/`
    expect((await run(sandbox, curl(url))).stdout).toContain('http /')
    await sandbox.setEgress(EgressPolicy.parse({ deny: ['origin.test'] }), 1)
    expect(JSON.parse((await run(sandbox, curl(url))).stdout)).toMatchObject({ code: 'denied' })
  })

  test('a sandbox that was stopped gets out when it is woken', async () => {
    const sandbox = await make('stopped', {})
    await sandbox.suspend('stop')
    await sandbox.resume()
    expect((await run(sandbox, curl(`http://origin.test:${plain.port}/again`))).stdout).toBe('http /again nobody')
  })

  test('the home of programs is in the workspace, and counts as it', async () => {
    const sandbox = await make('home', {})
    const { stdout } = await run(
      sandbox,
      'echo "$HOME $TMPDIR"; touch "$HOME/a" "$TMPDIR/b" && cd /workspace && find .boxoffice -type f | sort',
    )
    expect(stdout).toBe(
      '/workspace/.boxoffice/home /workspace/.boxoffice/tmp\n./.boxoffice/home/a\n./.boxoffice/tmp/b\n'.replaceAll('./.box', '.box'),
    )
  })

  test('a port that a program of the sandbox has is its own, and the one of the proxy is the proxy', async () => {
    const sandbox = await make('port', {})
    const taken = await run(sandbox, `python3 -c 'import socket; socket.socket().bind(("127.0.0.1", 3128))'`)
    expect(taken.stderr).toContain('Address already in use')
    await eventually(async () => expect((await run(sandbox, curl(`http://origin.test:${plain.port}/p`))).stdout).toBe('http /p nobody'))
  })
}
