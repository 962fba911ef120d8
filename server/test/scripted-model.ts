import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

export interface ModelRequest {
  model: string
  messages: { role: string; content: unknown; tool_calls?: { function: { name: string } }[]; tool_call_id?: string }[]
  tools?: { function: { name: string; description: string; parameters: unknown } }[]
  max_tokens?: number
}

/** What the model answers to one request. */
export interface ScriptedReply {
  /** Sent one by one. A promise is waited for, to hold the stream. */
  text?: (string | Promise<unknown>)[]
  calls?: { name: string; args: unknown }[]
  finish?: 'stop' | 'length' | 'tool_calls'
  /** Null if the provider doesn't report any. */
  usage?: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: object } | null
  /** Answers with this status instead. */
  status?: number
  headers?: Record<string, string>
  error?: string
  /** After the text: closes the connection, ends without a finish, sends something that isn't JSON, or never goes on. */
  ending?: 'break' | 'end' | 'garbage' | 'stall'
  /** Between two parts of the text. */
  delayMs?: number
}

export type Script = (request: ModelRequest, count: number) => ScriptedReply | Promise<ScriptedReply>

export interface ScriptedModel {
  url: string
  /** All requests so far. */
  requests: ModelRequest[]
  /** Requests whose connection was closed by the client before the reply ended. */
  aborted(): number
  follow(script: Script): void
  close(): void
}

/** A server with the OpenAI API's streamed Chat Completions that says what a test wants. */
export async function startScriptedModel(script: Script): Promise<ScriptedModel> {
  const requests: ModelRequest[] = []
  let current = script
  let aborted = 0
  const server = createServer(async (request, response) => {
    const body: ModelRequest = JSON.parse((await request.toArray()).join(''))
    requests.push(body)
    response.on('close', () => {
      if (!response.writableEnded) aborted += 1
    })
    await answer(response, body, await current(body, requests.length))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    aborted: () => aborted,
    follow(script) {
      current = script
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Closed at the end of the test. */
export async function useScriptedModel(script: Script): Promise<ScriptedModel> {
  const model = await startScriptedModel(script)
  onTestFinished(() => model.close())
  return model
}

export const defaultUsage = { prompt_tokens: 100, completion_tokens: 10 }

async function answer(response: ServerResponse, { model }: ModelRequest, reply: ScriptedReply): Promise<void> {
  const { text = [], calls = [], status, headers, error = 'The model failed', delayMs } = reply
  if (status) {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    return void response.end(JSON.stringify({ error: { message: error, type: 'error', param: null, code: null } }))
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_794_672_000, model }
  const send = (data: unknown) => response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
  const chunk = (delta: object, finish_reason: string | null = null) =>
    send({ ...head, choices: [{ index: 0, delta, finish_reason }] })
  chunk({ role: 'assistant', content: '' })
  for (const part of text) {
    if (typeof part === 'string') chunk({ content: part })
    else await part
    if (delayMs) await delay(delayMs)
  }
  if (reply.ending === 'stall') return
  if (reply.ending === 'break') return void response.destroy()
  if (reply.ending === 'end') return void response.end()
  if (reply.ending === 'garbage') send('{"this is": not JSON')
  for (const [index, { name, args }] of calls.entries())
    chunk({
      tool_calls: [
        {
          index,
          id: `call_${Math.random().toString(36).slice(2)}`,
          type: 'function',
          function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
        },
      ],
    })
  chunk({}, reply.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'))
  const usage = reply.usage === undefined ? defaultUsage : reply.usage
  if (usage) {
    const total_tokens = usage.prompt_tokens + usage.completion_tokens
    send({ ...head, choices: [], usage: { ...usage, total_tokens } })
  }
  send('[DONE]')
  response.end()
}
