import type { ServerResponse } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Opened } from './call/access-tokens.ts'
import { EventStream } from './call/event-stream.ts'
import type { StreamCall } from './call/stream-call.ts'
import { unsupported } from './call/unsupported.ts'
import { type Filesystem, ListDirRequest, MoveRequest, PathRequest } from './filesystem/filesystem.ts'
import { WatcherRequest, type Watchers } from './filesystem/watchers.ts'
import { WatchRequest, watchDir } from './filesystem/watches.ts'
import { selected } from './process/process-ids.ts'
import {
  CloseStdinRequest,
  ConnectRequest,
  readMessage,
  SendInputRequest,
  SendSignalRequest,
  StartRequest,
  UpdateRequest,
} from './process/process-requests.ts'
import type { Processes } from './process/processes.ts'

/** A call with one message each way: gives the response, as JSON of protobuf. */
export type UnaryCall = (opened: Opened, message: unknown) => Promise<object>
/** A call whose response is a stream of messages. Rejects only before the first one. */
export type StreamingCall = (call: StreamCall, message: unknown) => Promise<void>
export type EnvdCalls = { unary: Readonly<Record<string, UnaryCall>>; streaming: Readonly<Record<string, StreamingCall>> }

/** The calls of E2B's in-sandbox API by the end of their path (contract 7.3). */
export const envdCalls = ({
  dataplane,
  processes,
  filesystem,
  watchers,
}: {
  dataplane: DataplaneClient
  processes: Processes
  filesystem: Filesystem
  watchers: Watchers
}): EnvdCalls => ({
  streaming: {
    'process.Process/Start': (call, message) => processes.start(call, readMessage(StartRequest, message)),
    'process.Process/Connect': (call, message) => processes.connect(call, selected(readMessage(ConnectRequest, message).process)),
    'process.Process/StreamInput': async () => refuse('StreamInput'),
    'filesystem.Filesystem/WatchDir': (call, message) => watchDir(dataplane, call, readMessage(WatchRequest, message)),
  },
  unary: {
    'process.Process/List': async (opened) => ({ processes: await processes.list(opened) }),
    async 'process.Process/SendInput'(opened, message) {
      const { process, input } = readMessage(SendInputRequest, message)
      await processes.sendInput(opened, selected(process), Buffer.from(input.stdin ?? input.pty ?? '', 'base64'))
      return {}
    },
    async 'process.Process/CloseStdin'(opened, message) {
      await processes.closeStdin(opened, selected(readMessage(CloseStdinRequest, message).process))
      return {}
    },
    async 'process.Process/SendSignal'(opened, message) {
      const { process, signal } = readMessage(SendSignalRequest, message)
      await processes.signal(opened, selected(process), signal)
      return {}
    },
    async 'process.Process/Update'(opened, message) {
      const { process, pty } = readMessage(UpdateRequest, message)
      if (pty === undefined) throw new BoxofficeError('INVALID_REQUEST', 'pty: is missing')
      await processes.resize(opened, selected(process), pty.size)
      return {}
    },
    'filesystem.Filesystem/Stat': (opened, message) => filesystem.stat(opened, readMessage(PathRequest, message)),
    'filesystem.Filesystem/ListDir': (opened, message) => filesystem.listDir(opened, readMessage(ListDirRequest, message)),
    'filesystem.Filesystem/MakeDir': (opened, message) => filesystem.makeDir(opened, readMessage(PathRequest, message)),
    'filesystem.Filesystem/Move': (opened, message) => filesystem.move(opened, readMessage(MoveRequest, message)),
    'filesystem.Filesystem/Remove': (opened, message) => filesystem.remove(opened, readMessage(PathRequest, message)),
    'filesystem.Filesystem/CreateWatcher': (opened, message) => watchers.create(opened, readMessage(WatchRequest, message)),
    async 'filesystem.Filesystem/GetWatcherEvents'(opened, message) {
      return watchers.events(opened, readMessage(WatcherRequest, message).watcherId)
    },
    async 'filesystem.Filesystem/RemoveWatcher'(opened, message) {
      watchers.remove(opened, readMessage(WatcherRequest, message).watcherId)
      return {}
    },
  },
})

const refuse = (call: string): never => {
  throw unsupported(call)
}

const KEEPALIVE_EVENT = { event: { keepalive: {} } }

/** The stream of a response, with the keepalives that its request asks for: seconds in `Keepalive-Ping-Interval`. */
export const streamTo =
  (response: ServerResponse, keepalive: number | undefined): StreamCall['stream'] =>
  (handlers) =>
    new EventStream(response, { keepalive, keepaliveEvent: KEEPALIVE_EVENT, ...handlers })
