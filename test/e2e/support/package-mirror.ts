import { execFileSync } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'

/** A mirror of package indexes at an address of this machine: what it is asked for it takes from where this machine's clients do. */
export type PackageMirror = AsyncDisposable & { host: string; origin: string; asked: string[] }

/**
 * Starts one. `/pypi/…` is the index of pip, `/npm/…` the registry of npm, `/file/…` whatever they link to: links in what it passes on lead to
 * the mirror again, so that nothing else has to be reached.
 */
export const startPackageMirror = async (): Promise<PackageMirror> => {
  // Not of the loopback, which is another one in a sandbox.
  const host = Object.values(networkInterfaces())
    .flatMap((all = []) => all)
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address
  if (host === undefined) throw new Error('this machine has no address beside the loopback')
  const asked: string[] = []
  const indexes = {
    pip: output('/usr/bin/python3', '-c', 'from pip._internal.models.index import PyPI; print(PyPI.simple_url)'),
    npm: output('npm', 'config', 'get', 'registry'),
  }
  let origin = ''
  const answer = async ({ url = '' }: IncomingMessage, response: ServerResponse): Promise<void> => {
    asked.push(url)
    const [, kind, rest = ''] = /^\/(pypi|npm|file)\/(.*)$/.exec(url) ?? []
    const target = kind === 'file' ? fileAt(rest) : `${(kind === 'pypi' ? indexes.pip : indexes.npm).replace(/\/$/, '')}/${rest}`
    const found = await fetch(target, { headers: { accept: kind === 'pypi' ? 'text/html' : '*/*' } })
    const type = found.headers.get('content-type') ?? 'application/octet-stream'
    const isIndex = kind !== 'file' && /html|json/.test(type)
    const body = isIndex ? Buffer.from(rewritten(await found.text(), `${origin}/file/`, target)) : Buffer.from(await found.arrayBuffer())
    response.writeHead(found.status, { 'content-type': type, 'content-length': body.length }).end(body)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => response.writeHead(502).end(error.message))
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  origin = `http://${host}:${(server.address() as AddressInfo).port}`
  return {
    ...{ host, origin, asked },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Where this machine's own clients take packages from. */
const output = (command: string, ...args: string[]): string => execFileSync(command, args, { encoding: 'utf8' }).trim()

/** How the clients of a machine are told of it. */
export const mirrorVariables = ({ origin, host }: PackageMirror): Record<string, string> => ({
  ...{ PIP_INDEX_URL: `${origin}/pypi/`, PIP_TRUSTED_HOST: host, NPM_CONFIG_REGISTRY: `${origin}/npm/` },
})

/** `code/name`, and what a client puts behind the name: where the file is. Clients go by the name that a link ends with. */
const fileAt = (rest: string): string => {
  const [code = '', name = ''] = rest.split('/')
  return new URL(name, Buffer.from(code, 'base64url').toString()).href
}

/** Links to files, in HTML and in the JSON of npm; what follows a `#` is for the client. */
const rewritten = (text: string, through: string, base: string): string => {
  const link = (url: string): string => {
    const { href } = new URL(url, base)
    return `${through}${Buffer.from(new URL('.', href).href).toString('base64url')}/${href.slice(href.lastIndexOf('/') + 1)}`
  }
  return text
    .replace(/href="([^"#]+)(#[^"]*)?"/g, (_, url: string, hash = '') => `href="${link(url)}${hash}"`)
    .replace(/"tarball":"([^"]+)"/g, (_, url: string) => `"tarball":"${link(url)}"`)
}
