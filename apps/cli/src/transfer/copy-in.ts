import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { type Files, isCode } from '@boxoffice/client'
import { startProgress } from '../terminal/progress.ts'
import { archiveOf } from './archive.ts'
import { bytesOf, pathOf, pathOfArgument, textOf } from './local-path.ts'

export type Copy = { files: Files; from: string; to: string; signal: AbortSignal }

/** Copies a file or a directory of this machine into the sandbox. */
export const copyIn = async ({ files, from: argument, to, signal }: Copy): Promise<void> => {
  const from = pathOfArgument(argument)
  const source = await stat(bytesOf(from))
  const name = textOf(basename(resolve(pathOf(process.cwd()), from)))
  const target = await targetPath(files, name, to, signal)
  const progress = startProgress(name, source.isDirectory() ? undefined : source.size)
  const counted = (content: AsyncIterable<Uint8Array>) => count(content, (bytes) => progress.advance(bytes))
  try {
    if (source.isDirectory()) await files.uploadArchive(target, counted(archiveOf(from, signal)), { signal })
    else await files.upload(target, counted(createReadStream(bytesOf(from))), { mode: octal(source.mode), signal })
  } finally {
    progress.stop()
  }
}

/** Into a directory that exists, or that is written with a slash, things keep their own name. */
const targetPath = async (files: Files, name: string, to: string, signal: AbortSignal): Promise<string> => {
  if (to.endsWith('/')) return `${to}${name}`
  try {
    const { type } = await files.stat(to, { follow: true, signal })
    return type === 'directory' ? `${to}/${name}` : to
  } catch (error) {
    if (isCode(error, 'FILE_NOT_FOUND')) return to
    throw error
  }
}

const octal = (mode: number): string => (mode & 0o777).toString(8).padStart(4, '0')

async function* count(source: AsyncIterable<Uint8Array>, passed: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const bytes of source) {
    passed(bytes.length)
    yield bytes
  }
}
