// The limit: node:http and ws without any checks. Receives a tool call, forwards it to the page that has the tool, and
// responds with the result.
import { createServer } from 'node:http'
import { type WebSocket, WebSocketServer } from 'ws'
import { announce } from '../ticket-peers/announce.ts'

const pages = new Map<string, WebSocket>()
const waiting = new Map<string, (result: unknown) => void>()
let calls = 0

const server = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    const { id, params } = JSON.parse(body)
    const { tool_name, args } = params.arguments
    const call_id = String(calls++)
    waiting.set(call_id, (result) => {
      const answer = JSON.stringify({ jsonrpc: '2.0', id, result: { content: [], structuredContent: result } })
      response.writeHead(200, { 'content-length': Buffer.byteLength(answer) }).end(answer)
    })
    pages.get(tool_name)?.send(JSON.stringify({ type: 'tool/call', call_id, name: tool_name, args }))
  })
})

new WebSocketServer({ server, clientTracking: false }).on('connection', (socket) => {
  socket.on('error', () => undefined)
  socket.on('message', (data) => {
    const message = JSON.parse(String(data))
    if (message.type === 'hello') socket.send(JSON.stringify({ type: 'ready' }))
    if (message.type === 'tools/list') {
      for (const { name } of message.tools) pages.set(name, socket)
      socket.send(JSON.stringify({ type: 'tools/accepted' }))
    }
    if (message.type === 'tool/result') {
      waiting.get(message.call_id)?.(message.result)
      waiting.delete(message.call_id)
    }
  })
})

announce(server)
