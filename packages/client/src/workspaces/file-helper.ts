import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { FrameReader, frame, header, KIND, MAX_DATA_BYTES } from './helper-frames.ts'
import { FileFault, workspaceError } from './workspace-error.ts'

export type FileRequest = { directory: string; op: string; [field: string]: unknown }
export type FileAnswer = { result: Record<string, unknown>; content: Buffer }

type Waiting = { hasContent: boolean; result: Record<string, unknown>; pieces: Buffer[]; settle: PromiseWithResolvers<FileAnswer> }

/** Operations whose answer goes on behind the result. */
const WITH_CONTENT: ReadonlySet<string> = new Set(['read', 'list'])

/**
 * One `supervisor --files`: a process that opens files below a directory without ever leaving it by a link, which Node cannot [1-56]. It
 * answers one request at a time, does not keep this process from ending, and ends with it.
 */
export class FileHelper {
  readonly #child: ChildProcess
  readonly #input: Socket
  readonly #output: Socket
  #waiting: Waiting | undefined
  #ended: Error | undefined

  constructor(supervisorPath: string) {
    this.#child = spawn(supervisorPath, ['--files'], { stdio: ['pipe', 'pipe', 'ignore'], env: {}, cwd: '/' })
    // Node gives sockets here, which the types do not say.
    this.#input = this.#child.stdin as Socket
    this.#output = this.#child.stdout as Socket
    this.#child.unref()
    this.#child.on('error', (cause) => this.#end(cannotStart(supervisorPath, cause)))
    // What it said comes before its end, so the stream tells and not the process; unless there never was one.
    if (this.#child.pid !== undefined)
      this.#output.on('close', () => this.#end(workspaceError('BACKEND_UNAVAILABLE', 'The file helper broke off; try again')))
    this.#input?.on('error', () => {})
    const reader = new FrameReader((kind, payload) => this.#take(kind, payload))
    this.#output?.on('data', (chunk: Buffer) => reader.push(chunk))
    this.#hold(false)
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  /** `body` is what a `write` writes. */
  ask(request: FileRequest, body?: Uint8Array): Promise<FileAnswer> {
    const settle = Promise.withResolvers<FileAnswer>()
    if (this.#ended !== undefined) {
      settle.reject(this.#ended)
      return settle.promise
    }
    this.#waiting = { hasContent: WITH_CONTENT.has(request.op), result: {}, pieces: [], settle }
    this.#hold(true)
    this.#input.cork()
    this.#input.write(frame(KIND.file, request))
    if (body !== undefined) {
      for (let at = 0; at < body.length; at += MAX_DATA_BYTES) {
        const piece = body.subarray(at, at + MAX_DATA_BYTES)
        this.#input.write(header(KIND.stdin, piece.length))
        this.#input.write(piece)
      }
      this.#input.write(header(KIND.stdin, 0))
    }
    this.#input.uncork()
    return settle.promise
  }

  async stop(): Promise<void> {
    if (this.ended) return
    const closed = new Promise((resolve) => this.#output.once('close', resolve))
    this.#hold(true)
    this.#input.end()
    await closed
  }

  #take(kind: number, payload: Buffer): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    if (kind === KIND.data) waiting.pieces.push(payload)
    else if (kind === KIND.result) {
      waiting.result = JSON.parse(payload.toString())
      if (!waiting.hasContent) this.#answer(waiting)
    } else if (kind === KIND.end) this.#answer(waiting)
    else if (kind === KIND.error) {
      const { kind: what, errno, message } = JSON.parse(payload.toString()) as { kind: string; errno: string | null; message: string }
      this.#done().reject(new FileFault(what, errno, message))
    }
  }

  #answer({ result, pieces }: Waiting): void {
    this.#done().resolve({ result, content: Buffer.concat(pieces) })
  }

  #done(): { resolve(answer: FileAnswer): void; reject(error: Error): void } {
    const waiting = this.#waiting
    this.#waiting = undefined
    this.#hold(false)
    return waiting?.settle ?? { resolve: () => {}, reject: () => {} }
  }

  #end(error: Error): void {
    this.#ended ??= error
    this.#done().reject(this.#ended)
  }

  /** Whether this process waits for it. */
  #hold(held: boolean): void {
    for (const socket of [this.#input, this.#output]) held ? socket?.ref() : socket?.unref()
  }
}

const cannotStart = (path: string, cause: Error) =>
  workspaceError('BACKEND_UNAVAILABLE', `supervisorPath: ${path} cannot be started (${cause.message}); npm run setup makes it`, cause)
