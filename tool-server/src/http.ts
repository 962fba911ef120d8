/** A request from Fetch, node:http or Express. */
export interface Headed {
  headers: Headers | Record<string, string | string[] | undefined>
}

export function headerOf({ headers }: Headed, name: string): string | undefined {
  if (isFetchHeaders(headers)) return headers.get(name) ?? undefined
  const value = headers[name.toLowerCase()]
  return Array.isArray(value) ? value.join(', ') : value
}

/** Doesn't use `instanceof`, because runtimes and frameworks have their own `Headers` classes. */
const isFetchHeaders = (headers: Headed['headers']): headers is Headers => typeof headers.get === 'function'

/** A response, independent of the framework. */
export interface Answer {
  status: number
  headers: Record<string, string>
  body: string
}

export const noStore = { 'cache-control': 'no-store' }

export const answerJson = (status: number, body: object, headers: Record<string, string>): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

export const toResponse = ({ status, headers, body }: Answer): Response =>
  new Response(body === '' ? null : body, { status, headers })

/** Reads a stream as text. Stops and returns undefined when it has more than `limit` bytes. */
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

const localHosts = ['localhost', '127.0.0.1', '[::1]']

/** Requires https, except on the same machine, where nobody can read or change the traffic. */
export function requireSafeUrl(value: string, name: string): URL {
  const url = URL.canParse(value) ? new URL(value) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && localHosts.includes(url.hostname))
  if (!url || !isSafe) throw new TypeError(`${name} must be an https URL, not ${value}`)
  return url
}
