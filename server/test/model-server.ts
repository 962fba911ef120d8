import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

interface CompletionRequest {
  model: string
  messages: { role: string; content: unknown }[]
  stream?: boolean
  stream_options?: { include_usage?: boolean }
}

interface ModelServerOptions {
  key?: string
  models?: readonly string[]
  /** Number of requests before the rate limit. */
  limit?: number
  /** Answers in place of the API, as a broken or wrong server would. */
  respond?: (response: ServerResponse, headers: IncomingHttpHeaders) => void
  /** Delays responses until it's resolved. */
  until?: Promise<void>
}

/** Starts a server with the OpenAI API's Chat Completions for one test. It records its requests. */
export async function startModelServer({
  key = 'sk-of-the-model-server-1234',
  models = ['small', 'large'],
  limit = Number.POSITIVE_INFINITY,
  respond,
  until,
}: ModelServerOptions = {}) {
  const asked: { path: string; headers: IncomingHttpHeaders; body: CompletionRequest }[] = []
  const firstRequest = Promise.withResolvers<void>()
  let remaining = limit
  const server = createServer(async (request, response) => {
    const { url: path = '', headers } = request
    const body: CompletionRequest = JSON.parse((await request.toArray()).join('') || '{}')
    asked.push({ path, headers, body })
    firstRequest.resolve()
    await until
    if (respond) return respond(response, headers)
    if (request.method !== 'POST' || path !== '/v1/chat/completions') {
      return refuse(response, 404, `Invalid URL (${request.method} ${path})`, null)
    }
    const sent = headers.authorization?.replace('Bearer ', '') ?? ''
    if (sent !== key) return refuse(response, 401, `Incorrect API key provided: ${sent}.`, 'invalid_api_key')
    if (!models.includes(body.model)) {
      return refuse(response, 404, `The model \`${body.model}\` does not exist`, 'model_not_found')
    }
    if (remaining === 0) {
      response.setHeader('retry-after', '20')
      return refuse(response, 429, `Rate limit reached for ${body.model}`, 'rate_limit_exceeded')
    }
    remaining -= 1
    complete(response, body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, key, asked, firstRequest: firstRequest.promise }
}

function refuse(response: ServerResponse, status: number, message: string, code: string | null): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code } }))
}

/** What the server reports for any request. */
export const reportedUsage = { prompt_tokens: 17, completion_tokens: 3 }

function complete(response: ServerResponse, { model, stream = false, stream_options }: CompletionRequest): void {
  const usage = { ...reportedUsage, total_tokens: reportedUsage.prompt_tokens + reportedUsage.completion_tokens }
  const head = { id: 'chatcmpl-1', created: 1_794_672_000, model }
  if (!stream) {
    const message = { role: 'assistant', content: 'OK' }
    response.writeHead(200, { 'content-type': 'application/json' })
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    response.end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage }))
    return
  }
  const choice = (delta: object, finish_reason: string | null) => [{ index: 0, delta, finish_reason }]
  const chunks = [
    { choices: choice({ role: 'assistant', content: '' }, null) },
    { choices: choice({ content: 'OK' }, null) },
    { choices: choice({}, 'stop') },
    ...(stream_options?.include_usage ? [{ choices: [], usage }] : []),
  ].map((chunk) => JSON.stringify({ ...head, object: 'chat.completion.chunk', ...chunk }))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end([...chunks, '[DONE]'].map((data) => `data: ${data}\n\n`).join(''))
}
