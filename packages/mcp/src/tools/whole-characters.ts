/** Bytes of UTF-8 without a last character of which only the beginning is there. What is no UTF-8 stays. */
export const wholeCharacters = (bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}
