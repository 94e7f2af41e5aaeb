import './without-eval.ts'
import { BoxofficeError, connect, type FileChange, isFamily, type Session } from '@boxoffice/client'

const violations: string[] = []
document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
  violations.push(`${violatedDirective} ${blockedURI}`),
)

/** What the page has done with the SDK: in one session directly, in another one through the relay. */
const run = async (): Promise<Record<string, unknown>> => {
  const parameters = new URLSearchParams(location.search)
  const token = async (): Promise<string> => await (await fetch('/credential')).text()
  const client = connect(parameters.get('broker') ?? '', { token, requestTimeoutMs: 60_000 })
  const outcomes = ['never', 'always'] as const
  const used = outcomes.map(async (relay) => {
    const session = await client.session(`browser-${relay}`, { relay })
    const outcome = { mode: session.mode, ...(await useOf(session)), many: relay === 'never' ? await many(session) : [] }
    await session.release()
    return [relay, outcome] as const
  })
  return { ...Object.fromEntries(await Promise.all(used)), violations }
}

const useOf = async (session: Session): Promise<object> => ({
  ...{ exec: await exec(session), stdin: await stdin(session), shell: await shell(session), files: await files(session) },
  ...{
    change: await change(session),
    abort: await abort(session),
    error: await errorOf(session.files.download('missing')),
    event: await firstEvent(session),
  },
})

/** More commands than a browser has connections to a host, each of which waits for the last one. */
const many = async (session: Session): Promise<number[]> => {
  const waiting = Array.from({ length: 7 }, () => session.exec('until [ -e go ]; do sleep 0.1; done'))
  const results = await Promise.all([...waiting, session.exec('touch go')])
  return results.map(({ exitCode }) => exitCode)
}

/** With what the kept output says of itself in headers. */
const exec = async (session: Session): Promise<object> => {
  let [stdout, stderr] = ['', '']
  const { exitCode } = await session.exec('printf ünicode; printf err >&2; exit 3', {
    execId: 'exec-of-page',
    onStdout: (text) => {
      stdout += text
    },
    onStderr: (text) => {
      stderr += text
    },
  })
  const { bytes, nextOffset, ended } = await session.exec.output('exec-of-page', { stream: 'stdout', offset: 2 })
  return { exitCode, stdout, stderr, kept: new TextDecoder().decode(bytes), nextOffset, ended }
}

const stdin = async (session: Session): Promise<object> => {
  const run = await session.exec.start(['sort'])
  await run.stdin.write('b\n')
  await run.stdin.write(new TextEncoder().encode('a\n'))
  await run.stdin.end()
  const stdout = await run.text()
  return { stdout, ...(await run.exit) }
}

/** The terminal shows what was typed, and then what `cat` makes of it. */
const shell = async (session: Session): Promise<object> => {
  const shell = await session.shell({ cols: 80, rows: 24, argv: ['cat'] })
  await shell.write('typed\r')
  let shown = ''
  const decoder = new TextDecoder()
  for await (const bytes of shell.output) {
    shown += decoder.decode(bytes, { stream: true })
    if (shown.length >= 'typed\r\ntyped\r\n'.length) break
  }
  await shell.write('\x04')
  const { exitCode } = await shell.exit
  return { shown, exitCode }
}

const files = async (session: Session): Promise<object> => {
  const { files } = session
  const parts = [new Uint8Array([1, 2]), new Uint8Array([3])]
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const part = parts.shift()
      if (part === undefined) controller.close()
      else controller.enqueue(part)
    },
  })
  const written = await files.uploadMany({ text: 'ünicode', blob: new Blob(['of a blob']), 'new/stream': stream })
  const { stream: rest, etag, size } = await files.stream('text', { range: { start: 2 } })
  await files.move('blob', 'moved')
  await files.delete('moved')
  return {
    written: written.map((outcome) => (outcome.ok ? outcome.value.size : outcome.error)),
    text: await files.text('text'),
    bytes: [...(await files.download('new/stream'))],
    part: await new Response(rest).text(),
    ...{ hasEtag: etag !== undefined, size },
    list: (await files.list()).map(({ path }) => path),
  }
}

const change = async (session: Session): Promise<FileChange | undefined> => {
  await session.files.mkdir('watched')
  const watch = await session.files.watch('watched')
  await session.files.upload('watched/file', '')
  for await (const change of watch) if ('path' in change && change.path === 'watched/file') return change
  return undefined
}

/** Ends an upload whose source goes on for ever. Gives what the caller and what the source hear of it. */
const abort = async (session: Session): Promise<unknown[]> => {
  const controller = new AbortController()
  const { promise: cancelled, resolve: cancel } = Promise.withResolvers<unknown>()
  const endless = new ReadableStream<Uint8Array>(
    {
      pull(stream) {
        stream.enqueue(new Uint8Array(1))
        controller.abort('enough')
      },
      cancel,
    },
    { highWaterMark: 0 },
  )
  const uploaded = session.files.upload('endless', endless, { signal: controller.signal })
  return [await uploaded.catch((error: unknown) => error), await cancelled]
}

const errorOf = async (call: Promise<unknown>): Promise<object> => {
  const error: unknown = await call.catch((reason: unknown) => reason)
  if (!(error instanceof BoxofficeError)) return { thrown: String(error) }
  return { code: error.code, status: error.status, notFound: isFamily(error, 'not_found'), named: error.requestId !== undefined }
}

const firstEvent = async (session: Session): Promise<string | undefined> => {
  for await (const { type } of session.events()) return type
  return undefined
}

Object.assign(globalThis, { outcome: run() })
