import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { startUp } from './support/program.ts'

/** A request whose body never comes to its end: a stop gives it its time. */
const askForEver = async (url: string, key: string) => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname).on('error', () => {})
  await once(socket, 'connect')
  const head = [
    'POST /v1/sandbox/sessions HTTP/1.1',
    `host: ${hostname}`,
    `authorization: Bearer ${key}`,
    'content-length: 100',
    'expect: 100-continue',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await once(socket, 'data') // it is being answered
  return socket
}

// That two at once are one stop: test/e2e/faults/shutdown.ts.
test('a second signal ends the program at once, with what a request in flight would still have been given', async () => {
  const { up, ready, stop } = await startUp()
  const socket = await askForEver(String(ready.broker_url), String(ready.api_key))
  up.child.kill('SIGTERM')
  const again = setInterval(() => up.child.kill('SIGTERM'), 100)
  expect((await up.ended).code).toBe(143)
  clearInterval(again)
  socket.destroy()
  await stop()
})
