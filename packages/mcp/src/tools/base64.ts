type Bytes = Uint8Array<ArrayBuffer>
type Runtime = {
  Buffer?: {
    from(memory: ArrayBufferLike, at: number, length: number): { toString(encoding: 'base64'): string }
    from(text: string, encoding: 'base64'): Bytes
  }
}
const { Buffer } = globalThis as Runtime

/** Where the runtime has a `Buffer`, 10 MiB take milliseconds. */
export const encodeBase64 = (bytes: Bytes): string => {
  if (Buffer !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

/** The text must be valid base64. */
export const decodeBase64 = (text: string): Bytes =>
  Buffer !== undefined ? Buffer.from(text, 'base64') : Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
