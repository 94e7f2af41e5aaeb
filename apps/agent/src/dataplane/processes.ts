import { LIMITS, StartProcessRequest } from '@boxoffice/protocol'
import { assertCommandSize } from '../exec/start.ts'
import { parse, readJson } from '../http/body.ts'
import type { Call } from '../http/call.ts'
import { sendJson, sendNothing } from '../http/responses/respond.ts'
import type { Route } from '../http/router.ts'

const postProcess = async ({ incoming, outgoing, sandbox, signal, limits, claims }: Call): Promise<void> => {
  const body = await readJson(incoming, LIMITS.execBodyBytes)
  assertCommandSize({ argv: [body.command, ...(Array.isArray(body.args) ? body.args : [])], env: body.env })
  const request = parse(StartProcessRequest, body)
  await sandbox.ready(signal)
  limits.exec(claims)
  sendJson(outgoing, 201, await sandbox.processes.start(request, signal))
}

const listProcesses = async ({ outgoing, sandbox, signal }: Call): Promise<void> => {
  await sandbox.ready(signal)
  sendJson(outgoing, 200, { processes: await sandbox.processes.list() })
}

const getProcess = async ({ outgoing, sandbox, signal, id }: Call): Promise<void> => {
  await sandbox.ready(signal)
  sendJson(outgoing, 200, await sandbox.processes.get(id))
}

const stopProcess = async ({ outgoing, sandbox, signal, id }: Call): Promise<void> => {
  await sandbox.ready(signal)
  await sandbox.processes.stop(id)
  sendNothing(outgoing, 204)
}

export const processRoutes: readonly Route[] = [
  { method: 'POST', path: 'processes', requires: 'exec', handler: postProcess },
  { method: 'GET', path: 'processes', requires: 'exec', handler: listProcesses },
  { method: 'GET', path: 'processes/:id', requires: 'exec', handler: getProcess },
  { method: 'DELETE', path: 'processes/:id', requires: 'exec', handler: stopProcess },
]
