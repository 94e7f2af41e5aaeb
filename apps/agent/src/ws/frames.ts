import {
  AuthFrame,
  BoxofficeError,
  CLIENT_FRAME_TYPES,
  type ClientFrameType,
  CloseFrame,
  describeIssues,
  PingFrame,
  ResizeFrame,
  SignalFrame,
  StartExecFrame,
  StartShellFrame,
  StdinFrame,
} from '@boxoffice/protocol'
import { z } from 'zod'
import { assertCommandSize } from '../exec/start.ts'

export type SocketKind = 'exec' | 'shell'

/** `start` stays unparsed: what it may say depends on the kind of socket. */
const StartFrame = z.looseObject({ type: z.literal('start') })

const SCHEMAS = {
  auth: AuthFrame,
  start: StartFrame,
  stdin: StdinFrame,
  resize: ResizeFrame,
  signal: SignalFrame,
  ping: PingFrame,
  close: CloseFrame,
} as const
export type ClientFrame = { [type in ClientFrameType]: z.infer<(typeof SCHEMAS)[type]> & { type: type } }[ClientFrameType]

const isKnown = (type: unknown): type is ClientFrameType => (CLIENT_FRAME_TYPES as readonly unknown[]).includes(type)

const invalid = (message: string): BoxofficeError => new BoxofficeError('INVALID_REQUEST', message)

/** A client's text message as a JSON object. Throws INVALID_REQUEST. */
export const parseObject = (text: string): Record<string, unknown> => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: not valid JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('frame: must be a JSON object')
  return value as Record<string, unknown>
}

/** A client's text message. Throws for what is not a frame; an unknown type is returned as such, because it is not fatal [C-40]. */
export const parseFrame = (text: string): ClientFrame | { type: 'unknown'; name: string } => {
  const value = parseObject(text)
  const { type } = value
  if (typeof type !== 'string') throw invalid('frame: type is missing')
  if (!isKnown(type)) return { type: 'unknown', name: type.slice(0, 64) }
  const parsed = SCHEMAS[type].safeParse(value)
  if (!parsed.success) throw invalid(`${type}: ${describeIssues(parsed.error)}`)
  return parsed.data as ClientFrame
}

export const parseExecStart = (frame: Record<string, unknown>): StartExecFrame => {
  assertCommandSize(frame)
  return parseStart(StartExecFrame, frame)
}

export const parseShellStart = (frame: Record<string, unknown>): StartShellFrame => {
  assertCommandSize(frame)
  return parseStart(StartShellFrame, frame)
}

const parseStart = <T extends z.ZodType>(schema: T, frame: unknown): z.infer<T> => {
  const parsed = schema.safeParse(frame)
  if (!parsed.success) throw invalid(`start: ${describeIssues(parsed.error)}`)
  return parsed.data
}

/** The bytes of a `stdin` frame. */
export const stdinBytes = ({ data, encoding }: { data?: string | undefined; encoding?: 'utf8' | 'base64' | undefined }): Buffer => {
  if (data === undefined) return Buffer.alloc(0)
  if (encoding !== 'base64') return Buffer.from(data)
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data)) throw new BoxofficeError('INVALID_REQUEST', 'stdin: data is not base64')
  return Buffer.from(data, 'base64')
}
