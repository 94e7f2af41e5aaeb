import { expect, test } from 'vitest'
import { fileNameBytes, fileNameText } from '../../src/files/file-name.ts'

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

test.each<[Buffer, string]>([
  [Buffer.from('plain'), 'plain'],
  [Buffer.from('café 😀'), 'café 😀'],
  [latin1('caf\xe9'), 'caf\u{10fee9}'],
  [latin1('\xff\xfe'), '\u{10feff}\u{10fefe}'],
  // Cut short, too long, half of a pair, above the last character; whole ones beside them.
  [latin1('\xe2\x82/\xc0\xae\xc3\xa9'), '\u{10fee2}\u{10fe82}/\u{10fec0}\u{10feae}é'],
  [latin1('\xed\xa0\x80'), '\u{10feed}\u{10fea0}\u{10fe80}'],
  [latin1('\xf4\x90\x80\x80'), '\u{10fef4}\u{10fe90}\u{10fe80}\u{10fe80}'],
  // A name that holds such a character already, and its neighbours that do not.
  [Buffer.from('\u{10fe80}\u{10feff}'), '\u{10fef4}\u{10fe8f}\u{10feba}\u{10fe80}\u{10fef4}\u{10fe8f}\u{10febb}\u{10febf}'],
  [Buffer.from('\u{10fe2f}\u{10fe7f}\u{10ff00}\u{10ffff}'), '\u{10fe2f}\u{10fe7f}\u{10ff00}\u{10ffff}'],
])('[3.8] %j is %j, and back', (name, text) => {
  expect(fileNameText(name)).toBe(text)
  expect(fileNameBytes(text)).toEqual(name)
})

test('[3.8] every two bytes lead back to themselves', () => {
  for (let pair = 0; pair < 0x10000; pair++) {
    const name = Buffer.from([pair >> 8, pair & 0xff, 0x78])
    const text = fileNameText(name)
    if (!text.isWellFormed() || !fileNameBytes(text).equals(name)) expect.fail(`${name.toString('hex')} became ${JSON.stringify(text)}`)
  }
})

test('[3.8] no character stands for one of ASCII', () => {
  for (let byte = 0; byte < 0x80; byte++) {
    const text = String.fromCodePoint(0x10fe00 + byte)
    expect(fileNameBytes(text)).toEqual(Buffer.from(text))
  }
})
