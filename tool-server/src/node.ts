import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from './access-tokens.ts'
import type { Answer } from './http.ts'
import type { Scope } from './scopes.ts'
import { maxBody, type ToolServer } from './tool-server.ts'

/** Responds to requests for metadata and tokens. Returns false for every other request. */
export async function serve(server: ToolServer, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
  const { method = 'GET', url = '/', headers } = request
  const end = url.indexOf('?')
  const path = end < 0 ? url : url.slice(0, end)
  const answer = await server.answer({ method, path, headers, readBody: () => readBody(request) })
  if (answer) send(response, answer)
  return answer !== undefined
}

/** Returns the caller. If the token isn't valid, responds with 401 or 403 and returns undefined. */
export async function authorize(
  server: ToolServer,
  request: IncomingMessage,
  response: ServerResponse,
  scopes: readonly Scope[] = [],
): Promise<Caller | undefined> {
  const verified = await server.verify(request, scopes)
  if (verified.ok) return verified.caller
  send(response, verified.answer)
  return undefined
}

export function send(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body)
}

function readBody(request: IncomingMessage & { body?: unknown }): Promise<string | undefined> {
  if (request.body !== undefined) return Promise.resolve(writeForm(request.body))
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBody) chunks.push(chunk)
    })
    request.on('end', () => resolve(size > maxBody ? undefined : Buffer.concat(chunks).toString()))
    // A client that disconnects while it sends the body gets no response.
    request.on('error', () => resolve(undefined))
  })
}

/** Serializes a form that middleware such as `express.urlencoded()` has parsed, with repeated fields as arrays. */
function writeForm(body: unknown): string | undefined {
  const pairs = Object.entries(body ?? {}).flatMap(([name, value]) =>
    [value].flat().map((each) => [name, String(each)]),
  )
  const form = new URLSearchParams(pairs).toString()
  return form.length > maxBody ? undefined : form
}
