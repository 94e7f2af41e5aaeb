import { FileEntry } from '@boxoffice/protocol'
import { z } from 'zod'
import { READS, toTool } from '../base/tool.ts'
import { encodeBase64 } from './base64.ts'
import { BOUNDS, boundedList, boundedText, withNotice } from './bounds.ts'
import { readBytes, readText } from './file-content.ts'
import { Path, rootOf } from './place.ts'

export const readFile = toTool({
  name: 'read_file',
  title: 'Read a text file',
  description: `Reads a text file, or some of its lines; at most ${BOUNDS.textCharacters} characters at once`,
  inputSchema: z.strictObject({
    path: Path,
    first_line: z.number().int().min(1).default(1).describe('Counted from 1'),
    line_count: z.number().int().min(1).optional().describe('Default: to the end'),
  }),
  outputSchema: z.object({
    path: z.string(),
    content: z.string(),
    first_line: z.number(),
    total_lines: z.number(),
    truncated: z.boolean(),
  }),
  annotations: READS,
  async run({ path, first_line, line_count }, { session, signal }) {
    const { text } = await readText(await session(), path, signal)
    const lines = text.split(/(?<=\n)/)
    const wanted = lines.slice(first_line - 1, line_count === undefined ? undefined : first_line - 1 + line_count)
    const { text: content, truncated } = boundedText(wanted.join(''))
    const notice = truncated ? [`[cut after ${content.length} characters; read on with first_line]`] : []
    return { text: [content, ...notice], structuredContent: { path, content, first_line, total_lines: lines.length, truncated } }
  },
})

export const listDir = toTool({
  name: 'list_dir',
  title: 'List a directory',
  description: `Lists what is in a directory, with types and sizes; at most ${BOUNDS.entries} entries`,
  inputSchema: z.strictObject({
    path: Path.default('.'),
    depth: z.number().int().min(1).max(64).default(1).describe('How many levels down; 1 is the directory itself'),
  }),
  outputSchema: z.object({ path: z.string(), entries: z.array(FileEntry), truncated: z.boolean() }),
  annotations: READS,
  async run({ path, depth }, { session, signal }) {
    const { files } = await session()
    const found = await boundedList(files.walk(path, { ...rootOf(path), type: 'any', depth, signal }))
    const text = found.entries.map(({ path, type, size }) => (type === 'directory' ? `${path}/` : `${path} (${type}, ${size} bytes)`))
    return { text: withNotice(text, found.truncated), structuredContent: { path, ...found } }
  },
})

export const glob = toTool({
  name: 'glob',
  title: 'Find files by name',
  description: `Finds files whose path matches a pattern, such as *.ts or src/**/*.ts; at most ${BOUNDS.entries} of them`,
  inputSchema: z.strictObject({
    pattern: z.string().min(1).max(4096).describe('Without a slash it is for names at any depth'),
    path: Path.default('.').describe('The directory below which to look'),
  }),
  outputSchema: z.object({ files: z.array(z.string()), truncated: z.boolean() }),
  annotations: READS,
  async run({ pattern, path }, { session, signal }) {
    const { files } = await session()
    const { entries, truncated } = await boundedList(files.walk(path, { ...rootOf(path), pattern, signal }))
    const found = entries.map(({ path }) => path)
    return { text: withNotice(found, truncated), structuredContent: { files: found, truncated } }
  },
})

export const download = toTool({
  name: 'download',
  title: 'Download a file',
  description: `Gives a file of at most ${BOUNDS.fileBytes} bytes as base64 in the structured content, for programs`,
  inputSchema: z.strictObject({ path: Path }),
  outputSchema: z.object({ path: z.string(), size: z.number(), content_base64: z.string() }),
  annotations: READS,
  async run({ path }, { session, signal }) {
    const { bytes } = await readBytes(await session(), path, signal)
    return {
      text: [`${path} has ${bytes.length} bytes; they are in the structured content as base64.`],
      structuredContent: { path, size: bytes.length, content_base64: encodeBase64(bytes) },
    }
  },
})
