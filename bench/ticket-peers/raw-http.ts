// The limit: a node:http server that reads the request and responds with the same bytes as Inlay.
import { createServer } from 'node:http'
import { announce } from './announce.ts'

const { headers, body } = JSON.parse(process.argv[2] ?? '') as { headers: Record<string, string>; body: string }

announce(
  createServer((request, response) => {
    request.on('data', () => undefined)
    request.on('end', () => response.writeHead(200, headers).end(body))
  }),
)
