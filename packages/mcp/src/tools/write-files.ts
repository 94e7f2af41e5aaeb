import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { toTool, WRITES } from '../base/tool.ts'
import { decodeBase64 } from './base64.ts'
import { BOUNDS } from './bounds.ts'
import { readText } from './file-content.ts'
import { Path, rootOf } from './place.ts'

const Written = z.object({ path: z.string(), size: z.number(), created: z.boolean() })

export const writeFile = toTool({
  name: 'write_file',
  title: 'Write a text file',
  description: 'Writes a text file whole, in the place of what it had; directories on the way are made',
  inputSchema: z.strictObject({ path: Path, content: z.string().max(BOUNDS.fileBytes) }),
  outputSchema: Written,
  annotations: WRITES,
  async run({ path, content }, { session, signal }) {
    const { files } = await session()
    const { size, created } = await files.upload(path, content, { ...rootOf(path), signal })
    return { text: [`${path} is written: ${size} bytes.`], structuredContent: { path, size, created } }
  },
})

export const upload = toTool({
  name: 'upload',
  title: 'Upload a file',
  description: `Writes a file of at most ${BOUNDS.fileBytes} bytes, which are given as base64`,
  inputSchema: z.strictObject({
    path: Path,
    content_base64: z.base64().max(BOUNDS.base64Characters),
    mode: z
      .string()
      .regex(/^[0-7]{3,4}$/, 'must be octal, as 0755')
      .optional()
      .describe('Octal, as 0755'),
  }),
  outputSchema: Written,
  annotations: WRITES,
  async run({ path, content_base64, mode }, { session, signal }) {
    const { files } = await session()
    const { size, created } = await files.upload(path, decodeBase64(content_base64), { ...rootOf(path), mode, signal })
    return { text: [`${path} is uploaded: ${size} bytes.`], structuredContent: { path, size, created } }
  },
})

export const editFile = toTool({
  name: 'edit_file',
  title: 'Edit a text file',
  description:
    'Replaces a text that a file has exactly once, or each time with replace_all. Somebody else’s change meanwhile is not overwritten',
  inputSchema: z.strictObject({
    path: Path,
    old_text: z.string().min(1).max(BOUNDS.fileBytes),
    new_text: z.string().max(BOUNDS.fileBytes),
    replace_all: z.boolean().default(false),
  }),
  outputSchema: z.object({ path: z.string(), replacements: z.number() }),
  annotations: { ...WRITES, idempotentHint: false },
  async run({ path, old_text, new_text, replace_all }, { session, signal }) {
    const opened = await session()
    const { text, etag } = await readText(opened, path, signal)
    const parts = text.split(old_text)
    const replacements = parts.length - 1
    if (replacements === 0) throw new BoxofficeError('INVALID_REQUEST', `old_text: ${path} does not have it`)
    if (replacements > 1 && !replace_all)
      throw new BoxofficeError(
        'INVALID_REQUEST',
        `old_text: ${path} has it ${replacements} times; give more of what is around it, or replace_all`,
      )
    // Many small texts that become long ones: the result is counted before it is made.
    if (text.length + replacements * (new_text.length - old_text.length) > BOUNDS.fileBytes)
      throw new BoxofficeError('PAYLOAD_TOO_LARGE', `${path} would have more than ${BOUNDS.fileBytes} characters`)
    await opened.files.upload(path, parts.join(new_text), { ...rootOf(path), ifMatch: etag, signal })
    return { text: [`${path} is changed in ${replacements} places.`], structuredContent: { path, replacements } }
  },
})
