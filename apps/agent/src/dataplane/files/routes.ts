import { BoxofficeError, LIMITS, MkdirRequest, type MkdirResponse, MoveRequest, type MoveResponse } from '@boxoffice/protocol'
import { fileCall, statFile } from '../../files/files.ts'
import { notRoot } from '../../files/paths.ts'
import { parse, readJson } from '../../http/body.ts'
import type { Call } from '../../http/call.ts'
import { sendJson, sendNothing } from '../../http/responses/respond.ts'
import type { Route } from '../../http/router.ts'
import { requireNotHeld } from '../../sandbox/held.ts'
import { download } from './download.ts'
import { pathOf } from './file-paths.ts'
import { listFiles, toFileEntry } from './list-files.ts'
import { upload } from './upload.ts'

const getStat = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, outgoing } = call
  const path = pathOf(call, query.required('path'))
  const follow = query.flag('follow', false)
  await sandbox.ready(signal)
  const { type, size, mtime_ms: mtimeMs, mode, etag } = await statFile(sandbox, path, { follow, signal })
  outgoing.setHeader('ETag', `"${etag}"`)
  sendJson(outgoing, 200, toFileEntry({ path: path.shown, type, size, mtimeMs, mode }))
}

const remove = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, outgoing } = call
  const { root, path, given } = notRoot(pathOf(call, query.required('path')))
  const recursive = query.flag('recursive', false)
  await sandbox.ready(signal)
  await fileCall(sandbox, { op: 'remove', root, path, recursive }, { given, signal })
  sendNothing(outgoing, 204)
}

const mkdir = async (call: Call): Promise<void> => {
  const { incoming, sandbox, signal, outgoing, disk } = call
  const body = parse(MkdirRequest, await readJson(incoming, LIMITS.controlBodyBytes))
  const { root, path, shown, given } = pathOf(call, body.path)
  requireNotHeld(sandbox)
  disk.require(given, root)
  await sandbox.ready(signal)
  const { created } =
    path === ''
      ? { created: false }
      : await fileCall(sandbox, { op: 'mkdir', root, path, parents: body.parents ?? true }, { given, signal })
  sendJson(outgoing, 200, { path: shown, created: created === true } satisfies MkdirResponse)
}

const move = async (call: Call): Promise<void> => {
  const { incoming, sandbox, signal, outgoing } = call
  const body = parse(MoveRequest, await readJson(incoming, LIMITS.controlBodyBytes))
  const from = notRoot(pathOf(call, body.from))
  const to = notRoot(pathOf(call, body.to))
  if (from.root !== to.root) throw new BoxofficeError('INVALID_PATH', 'from, to: give both as relative or both as absolute paths')
  await sandbox.ready(signal)
  const fields = { op: 'move', root: from.root, from: from.path, to: to.path, overwrite: body.overwrite ?? false }
  await fileCall(sandbox, fields, { given: from.given, to: to.given, signal })
  sendJson(outgoing, 200, { from: from.shown, to: to.shown } satisfies MoveResponse)
}

export const fileRoutes: readonly Route[] = [
  { method: 'POST', path: 'files/upload', requires: 'fs_write', handler: upload },
  { method: 'GET', path: 'files/download', requires: 'fs_read', handler: download },
  { method: 'GET', path: 'files', requires: 'fs_read', handler: listFiles },
  { method: 'GET', path: 'files/stat', requires: 'fs_read', handler: getStat },
  { method: 'DELETE', path: 'files', requires: 'fs_write', handler: remove },
  { method: 'POST', path: 'files/mkdir', requires: 'fs_write', handler: mkdir },
  { method: 'POST', path: 'files/move', requires: 'fs_write', handler: move },
  { method: 'POST', path: 'upload', requires: 'fs_write', handler: upload, alias: true },
  { method: 'GET', path: 'download', requires: 'fs_read', handler: download, alias: true },
]
