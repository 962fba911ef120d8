import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request as sendRequest } from 'node:http'
import { WebSocket } from 'ws'
import { createTokenReader } from './tasks.ts'

/** One open conversation. */
export interface Conversation {
  /** Writes to the agent, and waits until the reply has ended. */
  ask(threadId: string, text: string, found: (sentAt: number) => void): Promise<void>
}

const agent = new Agent({ keepAlive: true })

/** A message as OpenAI's API expects it. */
const asCompletion = (_threadId: string, text: string) => ({
  model: 'bench',
  stream: true,
  messages: [{ role: 'user', content: text }],
})

/** A message as AG-UI expects it. */
export const asRunInput = (threadId: string, text: string) => ({
  threadId,
  runId: randomUUID(),
  state: {},
  messages: [{ id: randomUUID(), role: 'user', content: text }],
  tools: [],
  context: [],
  forwardedProps: {},
})

/** A conversation with a server that responds with an event stream. */
export const openStream = (
  port: number,
  path: string,
  describe: (threadId: string, text: string) => object = asCompletion,
): Conversation => ({
  ask: (threadId, text, found) =>
    new Promise((resolve, reject) => {
      const read = createTokenReader(found)
      const headers = { 'content-type': 'application/json' }
      const asking = sendRequest({ port, path, host: '127.0.0.1', method: 'POST', headers, agent }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`Unexpected status: ${response.statusCode}`))
        response.setEncoding('utf8').on('data', read).on('end', resolve).on('error', reject)
      })
      asking.on('error', reject)
      asking.end(JSON.stringify(describe(threadId, text)))
    }),
})

/** A conversation in a page with one tool. */
export async function openPage(
  port: number,
  origin: string,
  exchange: { publishable_key: string; id_token: string },
): Promise<Conversation> {
  const ticket = await exchangeTicket(port, origin, exchange)
  const protocols = ['inlay.v1', `inlay.ticket.${ticket}`]
  const socket = new WebSocket(`ws://127.0.0.1:${port}/runtime`, protocols, { origin, perMessageDeflate: false })
  const send = (message: object) => socket.send(JSON.stringify(message))
  let heard: (text: string) => void = () => undefined
  socket.on('message', (data) => heard(String(data)))
  await once(socket, 'open')
  const accepted = new Promise<void>((resolve) => {
    heard = (text) => {
      if (text.startsWith('{"type":"ready"')) send({ type: 'tools/list', tools: [{ name: 'add_to_cart' }] })
      if (text.startsWith('{"type":"tools/accepted"')) resolve()
    }
  })
  send({ type: 'hello', tab_id: randomUUID(), url: `${origin}/`, title: 'Page' })
  await accepted
  return {
    ask: (thread_id, text, found) =>
      new Promise((resolve, reject) => {
        const read = createTokenReader(found)
        socket.once('close', (code) => reject(new Error(`The socket was closed: ${code}`)))
        heard = (message) => {
          read(message)
          if (message.startsWith('{"type":"chat/error"')) reject(new Error(message))
          if (!message.startsWith('{"type":"chat/end"')) return
          socket.removeAllListeners('close')
          if (message.includes('"status":"succeeded"')) resolve()
          else reject(new Error(message))
        }
        send({ type: 'chat/send', request_id: randomUUID(), thread_id, message: { id: randomUUID(), text } })
      }),
  }
}

async function exchangeTicket(port: number, origin: string, exchange: object): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/api/auth/pk-ticket`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin },
    body: JSON.stringify(exchange),
  })
  if (!response.ok) throw new Error(await response.text())
  return ((await response.json()) as { ticket: string }).ticket
}
