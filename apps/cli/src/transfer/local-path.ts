import { existsSync } from 'node:fs'
import { fileNameBytes, fileNameText } from '@boxoffice/agent/byte-names'
import { UsageError } from '../settings/usage-error.ts'

/** Paths of this machine are held with one character for each byte: their names need not be UTF-8. */
const ENCODING = 'latin1'

/** What stands in an argument for bytes that are not UTF-8; what they were is lost. */
const LOST = '\uFFFD'

/** A path of this machine, one character for each byte. */
export type LocalPath = string

/** What file calls of Node take. */
export const bytesOf = (path: LocalPath): Buffer => Buffer.from(path, ENCODING)

/** The text of a path in messages and in names there: U+10FE00 + byte for each that is not UTF-8, as in listings of a sandbox. */
export const textOf = (path: LocalPath): string => fileNameText(bytesOf(path))

/** The path that a text means, the other way round. */
export const pathOf = (text: string): LocalPath => fileNameBytes(text).toString(ENCODING)

/** The path of an argument. Throws `UsageError` where its bytes are lost. */
export const pathOfArgument = (argument: string): LocalPath => {
  const path = pathOf(argument)
  if (argument.includes(LOST) && !existsSync(bytesOf(path)))
    throw new UsageError(
      `${argument}: the name is not UTF-8; write each such byte as the character U+10FE00 + byte ($'caf\\U10fee9' for caf\\xe9), or copy its directory`,
    )
  return path
}
