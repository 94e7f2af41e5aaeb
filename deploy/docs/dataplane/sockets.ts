import { z } from 'zod'
import {
  AuthFrame,
  AuthOkFrame,
  CloseFrame,
  ErrorFrame,
  ExecuteClientFrame,
  ExecuteServerFrame,
  ExitFrame,
  FileRoot,
  LinesClientFrame,
  LinesServerFrame,
  PingFrame,
  PORT_LIMITS,
  PongFrame,
  PortClientFrame,
  PortServerFrame,
  ReadyFrame,
  ResizeFrame,
  SignalFrame,
  StartExecFrame,
  StartShellFrame,
  StderrFrame,
  StdinFrame,
  StdoutFrame,
  SUBPROTOCOL,
  SUBPROTOCOL_BEARER_PREFIX,
  SUBPROTOCOL_BINARY,
  SUBPROTOCOL_LINES,
  SUBPROTOCOL_MCP,
  WatchClientFrame,
  WatchServerFrame,
} from '../../../packages/protocol/src/index.ts'

const CLIENT_FRAMES = {
  AuthFrame,
  StartExecFrame,
  StartShellFrame,
  StdinFrame,
  ResizeFrame,
  SignalFrame,
  PingFrame,
  CloseFrame,
  LinesClientFrame,
  ExecuteClientFrame,
  WatchClientFrame,
  PortClientFrame,
}
const SERVER_FRAMES = {
  ...{ AuthOkFrame, ReadyFrame, StdoutFrame, StderrFrame, ExitFrame, PongFrame, ErrorFrame },
  ...{ LinesServerFrame, ExecuteServerFrame, WatchServerFrame, PortServerFrame },
}

/** The schemas of all frames by their names. What the client sends is described as input, so that a default may be left away. */
export const FRAME_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  ...Object.fromEntries(Object.entries(CLIENT_FRAMES).map(([name, schema]) => [name, schema.meta({ unusedIO: 'input' })])),
  ...SERVER_FRAMES,
}

type FrameName = keyof typeof CLIENT_FRAMES | keyof typeof SERVER_FRAMES

export type Socket = {
  summary: string
  description: string
  query?: z.ZodObject
  subprotocols: readonly string[]
  /** Frames of each side, by their names in the components. */
  client: readonly FrameName[]
  server: readonly FrameName[]
}

const FRAMES = {
  subprotocols: [SUBPROTOCOL, SUBPROTOCOL_BINARY, `${SUBPROTOCOL_BEARER_PREFIX}<token>`],
  server: ['AuthOkFrame', 'ReadyFrame', 'StdoutFrame', 'StderrFrame', 'ExitFrame', 'PongFrame', 'ErrorFrame'],
} as const
const ORDER =
  'Frames are text messages: auth → auth_ok → start → ready → (stdout | stderr)* → exit → close 1000. ' +
  `With \`${SUBPROTOCOL_BINARY}\` stdin and output are binary messages whose first byte is 0, 1 or 2 for stdin, stdout and stderr. ` +
  'Without a token in headers or subprotocols the first frame is `auth`.'

/** By the path of the socket. */
export const SOCKETS: Readonly<Record<string, Socket>> = {
  'exec/ws': {
    ...FRAMES,
    summary: 'Run a command, or attach to one, on a WebSocket',
    description: ORDER,
    client: ['AuthFrame', 'StartExecFrame', 'StdinFrame', 'SignalFrame', 'PingFrame', 'CloseFrame'],
  },
  'execute/ws': {
    summary: 'The same in the frames of LangSmith’s clients',
    description:
      'execute | reconnect → started → (stdout | stderr)* → exit | error → close. A refused credential is told in a frame, then 4401.',
    subprotocols: [],
    client: ['ExecuteClientFrame'],
    server: ['ExecuteServerFrame'],
  },
  'shell/ws': {
    ...FRAMES,
    summary: 'Open a terminal, or attach to one, on a WebSocket',
    description: ORDER,
    client: ['AuthFrame', 'StartShellFrame', 'StdinFrame', 'ResizeFrame', 'SignalFrame', 'PingFrame', 'CloseFrame'],
  },
  'processes/:id/ws': {
    summary: 'Exchange lines with a managed process on a WebSocket',
    description: `One text message for each line. With \`${SUBPROTOCOL_LINES}\` binary messages are control frames, one JSON object each.`,
    query: z.object({
      takeover: z.enum(['true', 'false', '1', '0']).optional().describe('ends the present holder; default: false'),
      run: z.string().optional().describe('`run` of the control frame `ready`, to go on after a lost connection'),
      stdout_offset: z.int().min(0).optional().describe('byte of stdout to go on at'),
    }),
    subprotocols: [SUBPROTOCOL_LINES, SUBPROTOCOL_MCP, `${SUBPROTOCOL_BEARER_PREFIX}<token>`],
    client: ['LinesClientFrame'],
    server: ['LinesServerFrame'],
  },
  'files/watch': {
    summary: 'Watch a directory on a WebSocket',
    description: 'ready → (change | overflow)* → end | error → close. What cannot be watched is refused before the upgrade.',
    query: z.object({
      path: z.string().optional().describe('the directory; default: the workspace'),
      recursive: z.enum(['true', 'false', '1', '0']).optional().describe('also what is below it; default: false'),
      root: FileRoot.optional().describe('default: `workspace`'),
    }),
    subprotocols: [SUBPROTOCOL, `${SUBPROTOCOL_BEARER_PREFIX}<token>`],
    client: ['WatchClientFrame'],
    server: ['WatchServerFrame'],
  },
  'ports/:id': {
    summary: 'Connect to a TCP port of the sandbox on a WebSocket',
    description:
      'Binary messages are the bytes of the connection, both ways. ready → bytes; `end` of either side ends its bytes, after both close 1000. ' +
      'Where nobody listens the upgrade is refused: 502 `PORT_NOT_LISTENING`.',
    query: z.object({
      window: z
        .int()
        .min(PORT_LIMITS.windowBytes.min)
        .max(PORT_LIMITS.windowBytes.max)
        .optional()
        .describe('bytes that each side may be ahead of the last `ack` of the other; default: as the network lets it'),
    }),
    subprotocols: [SUBPROTOCOL, `${SUBPROTOCOL_BEARER_PREFIX}<token>`],
    client: ['PortClientFrame'],
    server: ['PortServerFrame'],
  },
}
