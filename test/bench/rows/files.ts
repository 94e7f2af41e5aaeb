import { execFileSync } from 'node:child_process'
import http from 'node:http'
import Docker from 'dockerode'
import { pack } from 'tar-stream'
import { brokerClient, type Grant } from '../http.ts'
import { BULK } from '../profiles.ts'
import { inTurn } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'
import { startPeers } from './stdout.ts'

const GIB = 1024 ** 3
const CHUNK = Buffer.alloc(64 * 1024, 1)

const rate = (start: number): number => 1024 / ((performance.now() - start) / 1000)

/** Sends 1 GiB from memory with backpressure; MiB per second until the answer. */
export const upload = (url: string, method: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    const start = performance.now()
    const request = http.request(
      url,
      { method, headers: { ...headers, 'content-type': 'application/octet-stream', 'content-length': String(GIB) } },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += String(chunk)
        })
        response.on('end', () =>
          (response.statusCode ?? 500) < 300 ? resolve(rate(start)) : reject(new Error(`upload: ${response.statusCode} ${text}`)),
        )
      },
    )
    request.on('error', reject)
    let left = GIB
    const write = (): void => {
      while (left > 0) {
        left -= CHUNK.length
        if (left === 0) request.end(CHUNK)
        else if (!request.write(CHUNK)) {
          request.once('drain', write)
          return
        }
      }
    }
    write()
  })

export const download = (url: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    const start = performance.now()
    http
      .get(url, { headers }, (response) => {
        let received = 0
        response.on('data', (chunk: Buffer) => {
          received += chunk.length
        })
        response.on('end', () =>
          received === GIB ? resolve(rate(start)) : reject(new Error(`download: ${response.statusCode}, ${received} bytes`)),
        )
        response.on('error', reject)
      })
      .on('error', reject)
  })

const enginePut = async (container: Docker.Container): Promise<number> => {
  const archive = pack()
  const start = performance.now()
  const entry = archive.entry({ name: 'big-engine', size: GIB })
  const feed = (async () => {
    for (let left = GIB; left > 0; left -= CHUNK.length) {
      if (!entry.write(CHUNK)) await new Promise<void>((resolve) => entry.once('drain', () => resolve()))
    }
    entry.end(undefined)
    archive.finalize()
  })()
  await Promise.all([container.putArchive(archive as unknown as NodeJS.ReadableStream, { path: '/workspace' }), feed])
  return rate(start)
}

const engineGet = async (container: Docker.Container): Promise<number> => {
  const start = performance.now()
  const stream = await container.getArchive({ path: '/workspace/big' })
  let received = 0
  for await (const chunk of stream) received += (chunk as Buffer).length
  if (received < GIB) throw new Error(`engine archive: ${received} bytes`)
  return rate(start)
}

const row = (
  name: string,
  comparison: string,
  must: number,
  stretch: string,
  result: { ours: number; theirs: number; ratio: number },
): Row => ({
  row: name,
  measured: `${round(result.ours, 0)} MiB/s = ${round(result.ratio)} ×`,
  comparison: `${comparison} ${round(result.theirs, 0)} MiB/s`,
  must: `≥ ${must} ×`,
  stretch,
  passed: result.ratio >= must,
  figures: { ...result },
})

export const needs: Needs = { docker: [BULK] }

/** 1 GiB up and down, against the engine's archive API and a bare `node:http` file server. */
export const run = async ({ docker, scratch }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant: Grant = await broker.ensure('bench-files', 'bulk')
  const [found] = await new Docker().listContainers({ filters: { label: [`boxoffice.sandbox_id=${grant.sandbox.id}`] } })
  if (found === undefined) throw new Error('the sandbox has no container')
  const container = new Docker().getContainer(found.Id)
  execFileSync('dd', ['if=/dev/zero', `of=${scratch}/bare-download`, 'bs=1M', 'count=1024', 'status=none'])
  const peers = await startPeers(scratch)
  const headers = { authorization: `Bearer ${grant.token}` }
  const up = () => upload(`${grant.sandbox.http_base_url}/files/upload?path=big`, 'POST', headers)
  const down = () => download(`${grant.sandbox.http_base_url}/files/download?path=big`, headers)
  const bare = `http://127.0.0.1:${peers.port}/`
  await up()
  await down()
  await upload(bare, 'PUT', {})
  await download(bare, {})
  const results = [
    row('1 GiB upload, against node:http', 'bare node:http file server', 0.6, '0.8 ×', await inTurn(up, () => upload(bare, 'PUT', {}))),
    row('1 GiB download, against node:http', 'bare node:http file server', 0.6, '0.8 ×', await inTurn(down, () => download(bare, {}))),
    row('1 GiB upload, against the engine', "the engine's archive API", 3, '', await inTurn(up, () => enginePut(container), 3)),
    row('1 GiB download, against the engine', "the engine's archive API", 3, '', await inTurn(down, () => engineGet(container), 3)),
  ]
  peers.stop()
  await broker.release(grant.session_id)
  return results
}
