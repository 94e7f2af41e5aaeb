import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { trustOwnAgent } from '../../../src/relay/http1/agent-tls.ts'

/** A certificate that nobody has signed, for a name that is not the address, and its key. */
const certificate = (): { cert: string; key: string } => {
  const directory = mkdtempSync(join(tmpdir(), 'agent-tls-'))
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  const subject = ['-subj', '/CN=agent.invalid', '-keyout', key, '-out', cert]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...subject], { stdio: 'ignore' })
  const made = { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  rmSync(directory, { recursive: true })
  return made
}

test('[11] the agent of `up` is known by its certificate, every other one by its name and who signed it', async () => {
  const [own, other] = [certificate(), certificate()]
  const connected = async (shown: { cert: string; key: string }): Promise<string> => {
    const server = createServer(shown, (socket) => socket.on('error', () => {}).end())
    onTestFinished(() => void server.close())
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...trustOwnAgent(own.cert) })
    onTestFinished(() => void socket.destroy())
    return new Promise((resolve) => {
      socket.once('secureConnect', () => resolve('connected')).once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
    })
  }
  expect(await connected(own)).toBe('connected')
  expect(await connected(other)).toBe('DEPTH_ZERO_SELF_SIGNED_CERT')
  expect(() => trustOwnAgent('no certificate')).toThrow()
})
