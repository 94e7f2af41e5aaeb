export type TarEntry = {
  name: Buffer
  type: 'file' | 'directory' | 'symlink'
  mode: number
  mtimeMs: number
  size?: number
  /** Of a link. */
  target?: Buffer
}

export const TAR_BLOCK = 512
const TYPE_FLAGS = { file: '0', directory: '5', symlink: '2' }
/** A name or target that does not fit goes before its entry, as the content of one of these. */
const LONG = { name: 'L', target: 'K' }
const FIELD_BYTES = 100
const LONG_NAME = Buffer.from('././@LongLink')
const NOTHING = Buffer.alloc(0)

/** What stands before an entry's content, in the format of GNU tar: there names are bytes, whatever they mean and however many there are. */
export const tarHeader = ({ name: given, type, mode, mtimeMs, size = 0, target = NOTHING }: TarEntry): Buffer => {
  const name = type === 'directory' ? Buffer.concat([given, Buffer.from('/')]) : given
  return Buffer.concat([
    ...(target.length > FIELD_BYTES ? longField(LONG.target, target) : []),
    ...(name.length > FIELD_BYTES ? longField(LONG.name, name) : []),
    block({ name, flag: TYPE_FLAGS[type], mode, seconds: Math.max(0, Math.floor(mtimeMs / 1000)), size, target }),
  ])
}

/** What fills the last block of a content. */
export const tarPadding = (size: number): Buffer => Buffer.alloc(-size & (TAR_BLOCK - 1))

const longField = (flag: string, value: Buffer): Buffer[] => {
  const content = Buffer.concat([value, Buffer.alloc(1)])
  return [
    block({ name: LONG_NAME, flag, mode: 0o644, seconds: 0, size: content.length, target: NOTHING }),
    content,
    tarPadding(content.length),
  ]
}

type Fields = { name: Buffer; flag: string; mode: number; seconds: number; size: number; target: Buffer }

const block = ({ name, flag, mode, seconds, size, target }: Fields): Buffer => {
  const header = Buffer.alloc(TAR_BLOCK)
  name.copy(header, 0, 0, FIELD_BYTES)
  writeNumber(header, mode, { at: 100, bytes: 8 })
  // Owner and group are left out: whoever unpacks the archive owns its files.
  writeNumber(header, 0, { at: 108, bytes: 8 })
  writeNumber(header, 0, { at: 116, bytes: 8 })
  writeNumber(header, size, { at: 124, bytes: 12 })
  writeNumber(header, seconds, { at: 136, bytes: 12 })
  // The sum counts its own field as blanks.
  header.fill(' ', 148, 156)
  header.write(flag, 156, 'latin1')
  target.copy(header, 157, 0, FIELD_BYTES)
  header.write('ustar  \0', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148, 'latin1')
  return header
}

/** Octal with a NUL behind it; binary where that is too short, as for files of 8 GiB. */
const writeNumber = (header: Buffer, value: number, { at, bytes }: { at: number; bytes: number }): void => {
  if (value < 8 ** (bytes - 1)) return void header.write(`${octal(value, bytes - 1)}\0`, at, 'latin1')
  header[at] = 0x80
  header.writeBigUInt64BE(BigInt(value), at + bytes - 8)
}

const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0')
