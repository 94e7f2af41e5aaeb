import { spawn } from 'node:child_process'
import type { RequestListener } from 'node:http'

/** Serves git repositories below a directory by git's own program, which speaks CGI. */
export const gitBackend =
  (directory: string): RequestListener =>
  (incoming, response) => {
    const { pathname, search } = new URL(incoming.url ?? '/', 'https://origin.example')
    const child = spawn('git', ['http-backend'], {
      env: {
        ...process.env,
        ...{ GIT_PROJECT_ROOT: directory, GIT_HTTP_EXPORT_ALL: '1', REMOTE_USER: 'tester', REMOTE_ADDR: '127.0.0.1' },
        ...{ REQUEST_METHOD: incoming.method, PATH_INFO: pathname, QUERY_STRING: search.slice(1) },
        ...{ CONTENT_TYPE: incoming.headers['content-type'] ?? '', CONTENT_LENGTH: incoming.headers['content-length'] ?? '' },
        ...{
          HTTP_CONTENT_ENCODING: String(incoming.headers['content-encoding'] ?? ''),
          GIT_PROTOCOL: String(incoming.headers['git-protocol'] ?? ''),
        },
      },
    })
    incoming.pipe(child.stdin)
    child.stdin.on('error', () => {})
    let head = Buffer.alloc(0)
    child.stdout.on('data', (piece: Buffer) => {
      if (response.headersSent) return void response.write(piece)
      head = Buffer.concat([head, piece])
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      const lines = head
        .subarray(0, end)
        .toString()
        .split('\r\n')
        .map((line) => line.split(/: */, 2) as [string, string])
      const status = Number.parseInt(lines.find(([name]) => name.toLowerCase() === 'status')?.[1] ?? '200', 10)
      response.writeHead(status, Object.fromEntries(lines.filter(([name]) => name.toLowerCase() !== 'status')))
      response.write(head.subarray(end + 4))
    })
    child.stdout.on('end', () => response.end())
  }
