// One attack on a server, bounded in what it has open, until the process is ended.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'

const { kind, port, key } = JSON.parse(process.argv[2] ?? '') as { kind: string; port: number; key: string }
const origin = 'https://shop.example.com'
const mostUnsent = 1_000_000

async function ticket(): Promise<string> {
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${port}/api/auth/pk-ticket`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: JSON.stringify({ publishable_key: key }),
    })
    if (response.ok) return ((await response.json()) as { ticket: string }).ticket
    await response.text()
    await sleep(100)
  }
}

/** A visitor's page. Opens again when the server closes it. */
async function open(secret: string, use: (socket: WebSocket) => void): Promise<void> {
  const protocols = ['inlay.v1', `inlay.ticket.${await ticket()}`]
  const socket = new WebSocket(`ws://127.0.0.1:${port}/runtime`, protocols, { origin, perMessageDeflate: false })
  const again = () => setTimeout(() => void open(secret, use).catch(() => undefined), 100)
  socket.on('error', () => undefined).on('close', again)
  socket.on('open', () => {
    socket.send(
      JSON.stringify({ type: 'hello', tab_id: randomUUID(), url: `${origin}/`, title: 'Page', visitor_secret: secret }),
    )
  })
  socket.once('message', () => use(socket))
}

/** Keeps as many requests open as a socket may have. */
function askAlways(socket: WebSocket, request: () => object): void {
  const ask = () => socket.send(JSON.stringify({ ...request(), request_id: randomUUID() }), () => undefined)
  socket.on('message', (data) => {
    if (String(data).includes('"request_id"')) ask()
  })
  for (let count = 0; count < 8; count += 1) ask()
}

async function openMany(count: number, secretOf: () => string, use: (socket: WebSocket) => void): Promise<void> {
  for (let opened = 0; opened < count; opened += 20) {
    await Promise.all(Array.from({ length: Math.min(20, count - opened) }, () => open(secretOf(), use)))
  }
}

const decide = () => ({ type: 'chat/decide', call_id: randomUUID(), approved: true, always: false })
const readThread = () => ({ type: 'chat/messages', thread_id: randomUUID() })

const tools = Array.from({ length: 512 }, (_, n) => ({ name: `tool_${n}`, description: 'A tool', inputSchema: {} }))
const nothingChanged = JSON.stringify({ type: 'tools/changed', removed: ['z'], set: [] })

/** As many messages as the connection takes. */
function changeAlways(socket: WebSocket): void {
  socket.send(JSON.stringify({ type: 'tools/list', tools }))
  const send = () => {
    if (socket.readyState !== WebSocket.OPEN) return
    for (let count = 0; count < 1_200 && socket.bufferedAmount < mostUnsent; count += 1) socket.send(nothingChanged)
    setTimeout(send, 10)
  }
  send()
}

/** Starts a run, and the next one when it has ended or was refused. */
function talkAlways(socket: WebSocket): void {
  const say = () =>
    socket.send(
      JSON.stringify({
        type: 'chat/send',
        request_id: randomUUID(),
        thread_id: randomUUID(),
        message: { id: randomUUID(), text: 'Talk as long as you can' },
      }),
      () => undefined,
    )
  socket.on('message', (data) => {
    const text = String(data)
    if (text.startsWith('{"type":"chat/end"')) say()
    else if (text.startsWith('{"type":"chat/error"')) setTimeout(say, 1_000)
  })
  say()
}

/** Posts views of almost a megabyte, one after the other. */
async function showAlways(): Promise<void> {
  const history = Array.from({ length: 60 }, (_, n) => ({ id: `m${n}`, role: 'user', content: 'x'.repeat(16_000) }))
  for (;;) {
    const session = await fetch(`http://127.0.0.1:${port}/api/agent/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: JSON.stringify({ ticket: await ticket() }),
    })
    const { token } = (await session.json()) as { token?: string }
    for (let count = 0; count < 20; count += 1) {
      const response = await fetch(`http://127.0.0.1:${port}/ag-ui`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin, authorization: `Bearer ${token}` },
        body: JSON.stringify({
          threadId: randomUUID(),
          runId: randomUUID(),
          messages: [...history, { id: randomUUID(), role: 'user', content: 'Talk as long as you can' }],
          tools: [],
          context: [],
          state: {},
          forwardedProps: {},
        }),
        signal: AbortSignal.timeout(20_000),
      }).catch(() => undefined)
      await response?.text().catch(() => undefined)
    }
  }
}

const sharedSecret = randomUUID()
const attacks: Record<string, () => Promise<unknown>> = {
  'chat/decide': () =>
    openMany(
      200,
      () => sharedSecret,
      (socket) => askAlways(socket, decide),
    ),
  'chat/messages': () => openMany(50, randomUUID, (socket) => askAlways(socket, readThread)),
  'tools/changed': () => openMany(20, randomUUID, changeAlways),
  'hostile models': () => openMany(8, randomUUID, talkAlways),
  'AG-UI bodies': () => Promise.all(Array.from({ length: 30 }, () => showAlways().catch(() => undefined))),
}

void attacks[kind]?.().catch(() => undefined)
process.on('disconnect', () => process.exit())
process.send?.({ kind })
