import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Profile } from '@boxoffice/protocol'
import Docker from 'dockerode'
import { pino } from 'pino'
import { afterEach, describe, expect, test } from 'vitest'
import { dockerProvider } from '../../src/providers/docker/docker.ts'

/** What real engines were seen to answer, with the paths that no caller may read. */
type Answer = { status: number; message: string }
const PATH = '/var/lib/docker/overlay2/0123456789abcdef'

let server: ReturnType<typeof createServer>
afterEach(async () => {
  server.close()
  server.closeAllConnections()
  await once(server, 'close')
})

/** A provider whose engine gives this answer to everything, and what it logs. */
const providerOf = async ({ status, message }: Answer) => {
  server = createServer((_, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ message })),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const lines: string[] = []
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const docker = new Docker({ protocol: 'http', host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  const capabilities = {
    isolation: 'container',
    suspend: [],
    limits: [],
    network: true,
    egress: true,
    extraMounts: true,
    ociRuntimes: [],
    images: true,
  } as const
  return { provider: dockerProvider({ docker, installId: 'i', instanceId: 'n', capabilities, log }), lines }
}

const SPEC = {
  ...{ profile: Profile.parse({ name: 'p', image: 'some/image:1' }), profileHash: 'h', pooled: false, uid: 1, gid: 1 },
  ...{ linkDirectory: '/l', supervisorPath: '/s', workspaceDirectory: '/w', workspaceReadOnly: false, mounts: [] },
}

describe("an engine's refusal is told in our own words, and logged in its own", () => {
  const cases: [what: string, answer: Answer, told: RegExp][] = [
    ['no space', { status: 500, message: `mkdir ${PATH}: no space left on device` }, /its disk is full; make room there$/],
    ['an unknown runtime', { status: 400, message: `Unknown runtime specified runsc in ${PATH}` }, /cannot run the profile's oci_runtime/],
    [
      'a runtime that is not installed',
      { status: 500, message: `unable to retrieve OCI runtime error (open ${PATH}/log.json: no such file): exec: "runsc": not found` },
      /cannot run the profile's oci_runtime/,
    ],
    [
      'a missing image',
      { status: 404, message: `No such image: some/image:1 (${PATH})` },
      /^image "some\/image:1" is not on this host and cannot be pulled \(no registry gives it the image\); pull or build it/,
    ],
    ['anything else', { status: 500, message: `something broke in ${PATH}` }, /what it said is in the agent's log$/],
  ]
  test.each(cases)('%s', async (_, answer, told) => {
    const { provider, lines } = await providerOf(answer)
    const error = (await provider.sandboxes.create('sb_x', SPEC, AbortSignal.timeout(60_000)).catch((thrown: unknown) => thrown)) as Error
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', message: expect.stringMatching(told) })
    expect(error.message).not.toContain(PATH)
    expect(lines.join()).toContain(PATH)
  })

  test('an engine that is down', async () => {
    const { provider } = await providerOf({ status: 200, message: '' })
    server.close()
    server.closeAllConnections()
    await expect(provider.sandboxes.create('sb_x', SPEC, AbortSignal.timeout(60_000))).rejects.toThrow(
      /^the container engine could not start the sandbox: it does not answer$/,
    )
    expect(await provider.probe()).toMatchObject({ available: false, reason: expect.stringContaining('it does not answer; start it') })
    server = createServer().listen(0)
  })
})
