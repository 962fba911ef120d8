// Open pages: each is a socket with one tool, `tool_<number>`, that returns its arguments. Inlay requires a ticket for
// each socket, which is requested with `exchange`. The bare server doesn't.
import { once } from 'node:events'
import { WebSocket } from 'ws'

const { port, count, origin, exchange } = JSON.parse(process.argv[2] ?? '') as {
  port: number
  count: number
  origin: string
  exchange?: { publishable_key: string; id_token?: string }
}
const atATime = 50

async function ticket(): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/api/auth/pk-ticket`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin },
    body: JSON.stringify(exchange),
  })
  if (!response.ok) throw new Error(await response.text())
  return ((await response.json()) as { ticket: string }).ticket
}

async function open(number: number): Promise<void> {
  const protocols = exchange ? ['inlay.v1', `inlay.ticket.${await ticket()}`] : []
  const socket = new WebSocket(`ws://127.0.0.1:${port}/runtime`, protocols, { origin, perMessageDeflate: false })
  await once(socket, 'open')
  const accepted = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data))
      if (message.type === 'ready') {
        socket.send(JSON.stringify({ type: 'tools/list', tools: [{ name: `tool_${number}` }] }))
      }
      if (message.type === 'tools/accepted') resolve()
      if (message.type !== 'tool/call') return
      socket.send(JSON.stringify({ type: 'tool/result', call_id: message.call_id, result: message.args }))
    })
  })
  socket.send(JSON.stringify({ type: 'hello', tab_id: `tab-${number}`, url: `${origin}/`, title: 'Page' }))
  socket.on('close', (code, reason) => {
    throw new Error(`A page was closed: ${code} ${reason}`)
  })
  await accepted
}

for (let number = 0; number < count; number += atATime) {
  await Promise.all(Array.from({ length: Math.min(atATime, count - number) }, (_, index) => open(number + index)))
}
process.send?.({ opened: count })
process.on('disconnect', () => process.exit())
