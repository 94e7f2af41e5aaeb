import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, RequestListener } from 'node:http'
import { dirname, join } from 'node:path'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { gitBackend } from './cgi.ts'

const ZIP = `import zipfile; z = zipfile.ZipFile('mod.zip', 'w')
z.writestr('example.com/toy@v1.0.0/go.mod', 'module example.com/toy\\n'); z.writestr('example.com/toy@v1.0.0/toy.go', 'package toy\\n')
z = zipfile.ZipFile('toy-1.0-py3-none-any.whl', 'w'); info = 'toy-1.0.dist-info'
z.writestr('toy.py', 'says = 42'); z.writestr(info + '/METADATA', 'Metadata-Version: 2.1\\nName: toy\\nVersion: 1.0\\n')
z.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); z.writestr(info + '/RECORD', '')`

/** What `/private/app.git` wants, the same repository, as the password of `x-access-token`. */
export const GIT_TOKEN = 'canary-of-git'
const AUTHORIZATION = `Basic ${Buffer.from(`x-access-token:${GIT_TOKEN}`).toString('base64')}`

/** Registries that package tools ask, below one origin, each with one package that is a toy. */
export type ToyRegistries = {
  serve: RequestListener
  /** Says what it hears to a WebSocket. */
  upgrade: (incoming: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** Subjects of the commits that were pushed to `/app.git`. */
  pushed: () => string
}

/** Makes packages in an empty directory. `origin`: its URL, without a slash at its end. */
export const toyRegistries = (directory: string, origin: string): ToyRegistries => {
  const write = (path: string, content: string): void => {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), content)
  }
  const tar = (path: string): Buffer => execFileSync('tar', ['-cz', path], { cwd: directory })
  execFileSync('/usr/bin/python3', ['-c', ZIP], { cwd: directory })
  write('package/package.json', JSON.stringify({ name: '@toys/one', version: '1.0.0' }))
  write('package/index.js', 'module.exports = 42')
  write('toy-1.0.0/Cargo.toml', '[package]\nname = "toy"\nversion = "1.0.0"\nedition = "2021"\n')
  write('toy-1.0.0/src/lib.rs', 'pub const SAYS: u8 = 42;\n')
  const [tarball, crate] = [tar('package'), tar('toy-1.0.0')]
  const git = (...args: string[]) => execFileSync('git', args, { cwd: directory, stdio: 'pipe' }).toString()
  git('init', '--quiet', '--bare', '--initial-branch', 'main', 'served/app.git')
  git('-C', 'served/app.git', 'config', 'http.receivepack', 'true')

  const dist = { tarball: `${origin}/one.tgz`, integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}` }
  const version = { name: '@toys/one', version: '1.0.0', dist }
  const cksum = createHash('sha256').update(crate).digest('hex')
  const at = '/example.com/toy/@v'
  const files: Readonly<Record<string, string | Buffer>> = {
    '/a': 'read\n',
    '/simple/toy/': '<a href="/files/toy-1.0-py3-none-any.whl">toy-1.0-py3-none-any.whl</a>',
    '/files/toy-1.0-py3-none-any.whl': readFileSync(join(directory, 'toy-1.0-py3-none-any.whl')),
    '/@toys/one': JSON.stringify({ name: '@toys/one', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }),
    '/one.tgz': tarball,
    [`${at}/list`]: 'v1.0.0\n',
    [`${at}/v1.0.0.info`]: JSON.stringify({ Version: 'v1.0.0', Time: '2026-01-01T00:00:00Z' }),
    [`${at}/v1.0.0.mod`]: 'module example.com/toy\n',
    [`${at}/v1.0.0.zip`]: readFileSync(join(directory, 'mod.zip')),
    '/index/config.json': JSON.stringify({ dl: `${origin}/crates/{crate}-{version}` }),
    '/index/3/t/toy': JSON.stringify({ name: 'toy', vers: '1.0.0', deps: [], cksum, features: {}, yanked: false }),
    '/crates/toy-1.0.0': crate,
  }
  const repositories = gitBackend(join(directory, 'served'))
  const sockets = new WebSocketServer({ noServer: true })
  return {
    serve: (incoming, response) => {
      const { url = '' } = incoming
      if (url.startsWith('/app.git/')) return repositories(incoming, response)
      if (url.startsWith('/private/')) {
        if (incoming.headers.authorization !== AUTHORIZATION)
          return void response.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end()
        incoming.url = url.slice('/private'.length)
        return repositories(incoming, response)
      }
      const content = files[decodeURIComponent(url.split('?')[0] ?? '')]
      response.writeHead(content === undefined ? 404 : 200, {
        'content-type': url.endsWith('/') ? 'text/html' : 'application/octet-stream',
      })
      response.end(content)
    },
    upgrade: (incoming, socket, head) =>
      sockets.handleUpgrade(incoming, socket, head, (client) => client.on('message', (text) => client.send(`heard ${String(text)}`))),
    pushed: () => git('-C', 'served/app.git', 'log', '--format=%s', 'main'),
  }
}
