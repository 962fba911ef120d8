import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

interface JsonRpcRequest {
  jsonrpc: string
  id: string
  method: string
  params: Record<string, unknown>
}

type Respond = (request: JsonRpcRequest, response: ServerResponse) => void | Promise<void>

/** Starts a governance interceptor for one test, which records its requests. */
export async function startInterceptor(respond: Respond = answerWith({ status: 'success', violations: [] })) {
  const asked: { method: string | undefined; headers: IncomingHttpHeaders; body: JsonRpcRequest }[] = []
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(''))
    asked.push({ method: request.method, headers: request.headers, body })
    await respond(body, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/validate`, asked }
}

/** A well-formed response with the given result; `members` overrides its members. */
export const answerWith =
  (result: unknown, members: Record<string, unknown> = {}): Respond =>
  ({ id }, response) =>
    void response.end(JSON.stringify({ jsonrpc: '2.0', id, result, ...members }))
