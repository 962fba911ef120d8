/** The text of a stream; undefined once it is longer than so many bytes, and the rest is not read. */
export async function readLimited(stream: ReadableStream<Uint8Array> | null, limit: number) {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for await (const chunk of stream ?? []) {
    size += chunk.length
    if (size > limit) return undefined
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
