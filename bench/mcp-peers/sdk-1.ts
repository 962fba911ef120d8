// A server without sessions, as in the SDK's documentation: it creates a server and a transport for every request.
import { createServer } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { announce } from '../ticket-peers/announce.ts'
import { annotations, description, input, names, output, run, title } from './tools.ts'

function buildServer(): McpServer {
  const server = new McpServer({ name: 'sdk-1', version: '1.0.0' }, { capabilities: { tools: {} } })
  const config = { title, description, inputSchema: input as never, outputSchema: output as never, annotations }
  for (const name of names) server.registerTool(name, config, run as never)
  return server
}

announce(
  createServer(async (request, response) => {
    const server = buildServer()
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    response.on('close', () => {
      void transport.close()
      void server.close()
    })
    await server.connect(transport as never)
    await transport.handleRequest(request, response)
  }),
)
