// A model that sends 14 MB of text, whatever it was asked for, and then a dot every 500 ms.
import { createServer } from 'node:http'
import { announce } from '../ticket-peers/announce.ts'

const event = (content: string) =>
  `data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'bench', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`
const piece = event('word '.repeat(3_200))
const mostPieces = 14_000_000 / 16_000

announce(
  createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let sent = 0
    let dots: NodeJS.Timeout | undefined
    const send = () => {
      if (response.destroyed) return
      for (; sent < mostPieces; sent += 1) {
        if (!response.write(piece)) {
          sent += 1
          response.once('drain', send)
          return
        }
      }
      dots ??= setInterval(() => response.write(event('.')), 500)
    }
    response.on('close', () => clearInterval(dots)).on('error', () => undefined)
    send()
  }),
)
