import createClient, { type Client } from 'openapi-fetch'
import type { paths } from './schema.ts'

export interface ClientOptions {
  /** Where Inlay is, for example `https://inlay.example.com`. */
  url: string
  /** A bearer token, or a function that has the current one. */
  token?: string | (() => Promise<string>)
  fetch?: (request: Request) => Promise<Response>
}

/** Every REST operation with its types: `client.GET('/users/me')`. */
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
