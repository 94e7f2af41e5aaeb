/** How many bytes at the end begin a UTF-8 character that is not complete: 0 to 3. */
export const incompleteTail = (bytes: Uint8Array): number => {
  const last = bytes.length - 1
  for (let back = 0; back < 3 && back <= last; back++) {
    const byte = bytes[last - back] as number
    if (byte < 0x80) return 0
    if (byte < 0xc0) continue
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
    return byte <= 0xf4 && needs > back + 1 ? back + 1 : 0
  }
  return 0
}

/** How many bytes at the start continue a character that began before: 0 to 3. */
export const continuedHead = (bytes: Uint8Array): number => {
  let head = 0
  while (head < 3 && head < bytes.length && ((bytes[head] as number) & 0xc0) === 0x80) head++
  return head
}
