// The SDK's own handler for both eras. It builds a server for every request.
import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import { announce } from '../ticket-peers/announce.ts'
import { annotations, description, input, names, output, run, title } from './tools.ts'

const { fetch } = createMcpHandler(() => {
  const server = new McpServer({ name: 'sdk-2', version: '1.0.0' }, { capabilities: { tools: {} } })
  const config = { title, description, inputSchema: input, outputSchema: output as z.ZodType, annotations }
  for (const name of names) server.registerTool(name, config, run)
  return server
})

announce(createServer(getRequestListener((request) => fetch(request))))
