import { isUtf8 } from 'node:buffer'

/** One character beyond ASCII in UTF-8, but none of U+10FE80 to U+10FEFF; or a byte that belongs to none. Of text that is read as latin1. */
const CHARACTER_OR_BYTE =
  /[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|(?!\xf4\x8f[\xba\xbb])\xf4[\x80-\x8f][\x80-\xbf]{2}|([\x80-\xff])/g

/** The UTF-8 of U+10FE80 to U+10FEFF, read as latin1. */
const STAND_IN = /\xf4\x8f([\xba\xbb])([\x80-\xbf])/g
const LEAD = 0xf4

/**
 * The text of a file's name in listings and calls: a byte that is not UTF-8 is the character U+10FE00 + byte (contract 3.8). A name that
 * holds such a character itself has that one's bytes so; the supervisor does the same.
 */
export const fileNameText = (name: Buffer): string => {
  if (isUtf8(name) && !name.includes(LEAD)) return name.toString()
  const text = name.toString('latin1').replace(CHARACTER_OR_BYTE, (character, byte?: string) => {
    if (byte === undefined) return character
    const code = byte.charCodeAt(0)
    return code < 0xc0 ? `\xf4\x8f\xba${byte}` : `\xf4\x8f\xbb${String.fromCharCode(code - 0x40)}`
  })
  return Buffer.from(text, 'latin1').toString()
}

/** The bytes that the text of a name stands for. Never one of ASCII, so that no slash comes out of it. */
export const fileNameBytes = (text: string): Buffer => {
  const bytes = Buffer.from(text)
  if (!bytes.includes(LEAD)) return bytes
  const name = bytes.toString('latin1').replace(STAND_IN, (_all, block: string, last: string) => {
    return block === '\xba' ? last : String.fromCharCode(last.charCodeAt(0) + 0x40)
  })
  return Buffer.from(name, 'latin1')
}
