/** A whole body in memory. One that is longer than `limit` bytes is not read to its end: it rejects with what `tooLong` gives. */
export async function readAtMost(
  body: AsyncIterable<Uint8Array>,
  { limit, tooLong }: { limit: number; tooLong: () => Error },
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit) throw tooLong()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
