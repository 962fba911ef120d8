// FastMCP without sessions, with JSON responses.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { FastMCP } from 'fastmcp'
import { description, input, names, run } from './tools.ts'

/** FastMCP requires a port number, so this finds a free one. */
const probe = createServer().listen(0, '127.0.0.1')
await new Promise((resolve) => probe.once('listening', resolve))
const { port } = probe.address() as AddressInfo
await new Promise((resolve) => probe.close(resolve))

const server = new FastMCP({ name: 'fastmcp', version: '1.0.0' })
for (const name of names) {
  server.addTool({
    name,
    description,
    parameters: input,
    execute: async (args) => ({ content: (await run(args)).content }),
  })
}
await server.start({
  transportType: 'httpStream',
  httpStream: { port, host: '127.0.0.1', stateless: true, enableJsonResponse: true },
})
process.send?.({ port })
process.on('disconnect', () => process.exit())
