// The limit: node:http passes the model's text on, one event per event, and does nothing else.
import { createServer, request as sendRequest } from 'node:http'
import { announce } from '../ticket-peers/announce.ts'

const url = `${process.argv[2]}/chat/completions`

announce(
  createServer((request, response) => {
    const upstream = sendRequest(url, { method: 'POST' }, (answer) => {
      let rest = ''
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      answer.setEncoding('utf8').on('data', (text: string) => {
        const lines = (rest + text).split('\n\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          if (line === 'data: [DONE]') continue
          const delta = JSON.parse(line.slice('data: '.length)).choices[0]?.delta.content
          if (delta) response.write(`data: ${JSON.stringify({ type: 'text-delta', delta })}\n\n`)
        }
      })
      answer.on('end', () => response.end())
    })
    request.pipe(upstream)
  }),
)
