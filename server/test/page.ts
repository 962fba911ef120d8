import { once } from 'node:events'
import { type ClientMessageInput, ServerMessage, subprotocol, ticketSubprotocolPrefix } from '@inlay/protocol'
import { onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'

type Of<Type extends ServerMessage['type']> = ServerMessage & { type: Type }

/** The widget's end of a socket, without a widget. */
export interface Page {
  socket: WebSocket
  ready: Of<'ready'>
  send(message: ClientMessageInput): void
  /** Returns the next unread message of a type. Every message is validated against the protocol. */
  next<Type extends ServerMessage['type']>(type: Type): Promise<Of<Type>>
  /** Returns the unread messages of a type. */
  unread<Type extends ServerMessage['type']>(type: Type): Of<Type>[]
  closed: Promise<{ code: number; reason: string }>
  /** Responds to every call from now on. */
  answer(respond: (call: Of<'tool/call'>) => unknown): void
  /** Waits until the server has read all messages sent so far. */
  settled(): Promise<void>
}

export interface PageOptions {
  origin?: string | undefined
  hello?: Partial<ClientMessageInput & { type: 'hello' }>
  client?: ClientOptions
}

export const pageOrigin = 'https://shop.example'

/** Opens a socket without sending `hello`. It is closed at the end of the test. */
export async function openSocket(url: string, ticket: string, options: PageOptions = {}) {
  const opened = connectSocket(url, ticket, options)
  onTestFinished(() => opened.socket.terminate())
  await once(opened.socket, 'open')
  return opened
}

function connectSocket(url: string, ticket: string, { origin = pageOrigin, client }: PageOptions) {
  const socket = new WebSocket(
    `${url.replace(/^http/, 'ws')}/runtime`,
    [subprotocol, ticketSubprotocolPrefix + ticket],
    {
      origin,
      ...client,
    },
  )
  socket.on('error', () => undefined)
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    socket.once('close', (code, reason) => resolve({ code, reason: String(reason) })),
  )
  return { socket, closed, ...readInbox(socket) }
}

export async function openPage(url: string, ticket: string, options: PageOptions = {}): Promise<Page> {
  return greet(await openSocket(url, ticket, options), options)
}

/** Like `openPage`, outside a test: the caller closes the socket. */
export async function connectPage(url: string, ticket: string, options: PageOptions = {}): Promise<Page> {
  const opened = connectSocket(url, ticket, options)
  await once(opened.socket, 'open')
  return greet(opened, options)
}

async function greet(opened: ReturnType<typeof connectSocket>, options: PageOptions): Promise<Page> {
  const { socket, closed, next, unread } = opened
  const send = (message: ClientMessageInput) => socket.send(JSON.stringify(message))
  const origin = options.origin ?? pageOrigin
  send({ type: 'hello', tab_id: 'tab-1', url: `${origin}/cart`, title: 'Cart', ...options.hello })
  const ended = closed.then(({ code }) => {
    throw new Error(`The server closed the socket before it was ready, with code ${code}`)
  })
  const ready = await Promise.race([next('ready'), ended])
  return {
    socket,
    closed,
    ready,
    next,
    unread,
    send,
    answer(respond) {
      void (async () => {
        for (;;) {
          const call = await next('tool/call')
          send({ type: 'tool/result', call_id: call.call_id, result: respond(call) })
        }
      })()
    },
    async settled() {
      send({ type: 'ping' })
      await next('pong')
    },
  }
}

/** Registers tools, and waits until the server knows them. */
export async function offer(page: Page, ...names: string[]): Promise<void> {
  page.send({ type: 'tools/list', tools: names.map((name) => ({ name, description: `Does ${name}` })) })
  await page.next('tools/accepted')
}

function readInbox(socket: WebSocket): Pick<Page, 'next' | 'unread'> {
  const messages: ServerMessage[] = []
  const waiting: { type: string; resolve: (message: never) => void }[] = []
  socket.on('message', (data) => {
    const message = ServerMessage.parse(JSON.parse(String(data)))
    const index = waiting.findIndex(({ type }) => type === message.type)
    if (index < 0) messages.push(message)
    else waiting.splice(index, 1)[0]?.resolve(message as never)
  })
  return {
    unread: <Type extends ServerMessage['type']>(type: Type) =>
      messages.filter((message): message is Of<Type> => message.type === type),
    next: (type) =>
      new Promise((resolve) => {
        const index = messages.findIndex((message) => message.type === type)
        if (index < 0) waiting.push({ type, resolve })
        else resolve(messages.splice(index, 1)[0] as never)
      }),
  }
}
