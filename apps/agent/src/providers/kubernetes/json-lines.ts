/** Longer than any pod that an API server takes. */
const MOST_CHARACTERS = 8 * 1024 * 1024

/** The values of a stream of JSON, one in each line, however the text is cut. What comes after the last line end is no value. */
export async function* jsonLines(text: AsyncIterable<string>): AsyncGenerator<unknown> {
  let rest = ''
  for await (const chunk of text) {
    const lines = chunk.split('\n')
    lines[0] = rest + lines[0]
    rest = lines.pop() ?? ''
    if (rest.length > MOST_CHARACTERS) throw new Error(`a line of more than ${MOST_CHARACTERS} characters`)
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line)
  }
}
