// A model without intelligence: streams as many tokens as the last message asks for, in OpenAI's format. Each token is
// the time at which it was sent, so that every client can tell how late it arrives.
import { createServer, type ServerResponse } from 'node:http'
import { announce } from '../ticket-peers/announce.ts'
import { readTask, writeToken } from './tasks.ts'

const head = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1794672000,"model":"bench",'
const event = (choices: string, more = '') =>
  `data: ${head}"system_fingerprint":null,"choices":[${choices}]${more}}\n\n`
const delta = (text: string, finish = 'null') =>
  event(`{"index":0,"delta":${text},"logprobs":null,"finish_reason":${finish}}`)

function stream(response: ServerResponse, { tokens, everyMs }: { tokens: number; everyMs: number }): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(delta('{"role":"assistant","content":""}'))
  let sent = 0
  const send = () => {
    response.write(delta(`{"content":"${writeToken()}"}`))
    sent += 1
    if (sent < tokens) return
    const usage = `,"usage":{"prompt_tokens":500,"completion_tokens":${tokens},"total_tokens":${500 + tokens}}`
    response.end(`${delta('{}', '"stop"')}${event('', usage)}data: [DONE]\n\n`)
  }
  const sendAll = () => {
    if (sent === tokens || response.destroyed) return
    send()
    if (response.writableNeedDrain) response.once('drain', sendAll)
    else setImmediate(sendAll)
  }
  // An interval would drift by a fifth of a second per reply, and conversations would no longer ask at even times.
  const beganAt = performance.now()
  const sendNext = () => {
    if (sent === tokens || response.destroyed) return
    send()
    setTimeout(sendNext, beganAt + sent * everyMs - performance.now())
  }
  if (everyMs > 0) sendNext()
  else sendAll()
}

announce(
  createServer(async (request, response) => {
    const { messages } = JSON.parse((await request.toArray()).join(''))
    stream(response, readTask(JSON.stringify(messages.at(-1))))
  }),
)
