// Stands for kube-proxy: passes connections on to the ready pods of a Service, in turns.
// usage: balancer.ts STATE API HOST:PORT NAMESPACE SERVICE
import { readFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'

const [state = '', api = '', listen = '', namespace = '', service = ''] = process.argv.slice(2)
const [host, port] = listen.split(':')
const KNOWN_MS = 1000

type Slice = { ports: { port: number }[]; endpoints?: { addresses: string[]; conditions: { ready?: boolean } }[] }
type Target = { host: string; port: number }

const ca = readFileSync(`${state}/pki/apiserver.crt`)
const headers = { authorization: `Bearer ${readFileSync(`${state}/pki/admin.token`, 'utf8').trim()}` }

const readTargets = async (): Promise<Target[]> => {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D${service}`
  const body = await new Promise<string>((resolve, reject) => {
    get(api + path, { ca, headers }, (response) => resolve(text(response))).on('error', reject)
  })
  return (JSON.parse(body).items as Slice[]).flatMap(({ ports, endpoints }) =>
    (endpoints ?? [])
      .filter(({ conditions }) => conditions.ready)
      .flatMap(({ addresses }) => addresses.map((address) => ({ host: address, port: ports[0]?.port ?? 0 }))),
  )
}

let known: Promise<Target[]> = Promise.resolve([])
let readAt = Number.NEGATIVE_INFINITY
let turn = 0

const nextTarget = async (): Promise<Target | undefined> => {
  if (performance.now() - readAt > KNOWN_MS) {
    readAt = performance.now()
    known = readTargets()
  }
  const targets = await known.catch(() => [])
  return targets[turn++ % targets.length]
}

createServer({ allowHalfOpen: true, pauseOnConnect: true }, async (client) => {
  client.on('error', () => {})
  const target = await nextTarget()
  if (target === undefined) return client.destroy()
  const upstream = connect({ ...target, allowHalfOpen: true }, () => client.pipe(upstream).pipe(client))
  upstream.on('error', () => client.destroy()).on('close', () => client.destroy())
  client.on('close', () => upstream.destroy())
}).listen(Number(port), host)
