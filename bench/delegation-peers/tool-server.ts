// A tool server, written with node:http as its author would. The load repeats the same assertions, so the replay store
// accepts them every time, at the cost of new ones.
import { createServer } from 'node:http'
import { serve } from '../../tool-server/src/node.ts'
import { rememberInMemory } from '../../tool-server/src/replays.ts'
import { createToolServer } from '../../tool-server/src/tool-server.ts'
import { announce } from '../ticket-peers/announce.ts'

const { jwk, issuer, resource, clients, secret } = JSON.parse(process.argv[2] ?? '')
const memory = rememberInMemory()
let claims = 0
const toolServer = createToolServer({
  resource,
  hubs: clients.map((client: { clientId: string; clientSecret: string }) => ({ ...client, issuer })),
  secrets: [secret],
  replays: { claim: (id, until) => memory.claim(`${id} ${claims++}`, until) },
  fetch: async (address) =>
    Response.json(String(address).endsWith('/jwks') ? { keys: [jwk] } : { issuer, jwks_uri: `${issuer}/jwks` }),
  onRefusal: (refusal) => process.send?.({ refusal }),
})

announce(createServer((request, response) => void serve(toolServer, request, response)))
