import createClient, { type Client } from 'openapi-fetch'
import type { paths } from './schema.ts'

/** The API's types, for example `components['schemas']['Skill']`. */
export type { components } from './schema.ts'

export interface ClientOptions {
  /** Inlay's URL, for example `https://inlay.example.com`. */
  url: string
  /** A bearer token, or a function that returns the current one. */
  token?: string | (() => Promise<string>)
  fetch?: (request: Request) => Promise<Response>
}

/** Creates a client with typed methods for every REST operation: `client.GET('/users/me')`. */
export function createInlayClient({ url, token, fetch }: ClientOptions): Client<paths, 'application/json'> {
  const client = createClient<paths, 'application/json'>({ baseUrl: `${url}/api`, ...(fetch && { fetch }) })
  if (token !== undefined) {
    client.use({
      async onRequest({ request }) {
        request.headers.set('authorization', `Bearer ${typeof token === 'string' ? token : await token()}`)
      },
    })
  }
  return client
}

interface Page<Data> {
  data?: Data
  error?: unknown
  response: Response
}

/**
 * Reads a list page after page. A page can be empty although there is a next one.
 *
 * ```ts
 * const pages = readPages((cursor) => client.GET('/threads', { params: { query: { limit: 100, ...cursor } } }))
 * for await (const { threads } of pages) …
 * ```
 */
export async function* readPages<Data>(
  read: (cursor: { cursor?: string }) => Promise<Page<Data>>,
): AsyncGenerator<Data, void> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data, error, response } = await read(cursor === undefined ? {} : { cursor })
    if (!response.ok || data === undefined) {
      const reason = (error as { message?: string } | undefined)?.message ?? response.statusText
      throw new Error(`A page couldn’t be read: ${reason} (${response.status})`, { cause: error })
    }
    yield data
    cursor = response.headers.get('next-cursor')
  }
}
