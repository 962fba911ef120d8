// Measures how many tickets per second one server process issues, compared with plain node:http and with comparable
// work of other libraries: verifying an API key (better-auth), and issuing an opaque token for client credentials
// (oidc-provider).
//
//   node bench/ticket.ts [--rounds=7] [--seconds=3] [--connections=32] [--only=<text>] [--profile=<folder>]
//
// load.ts explains the method. Redis is the machine's own installation, on a unix socket.

import { startTestProvider } from '../server/test/oidc-provider.ts'
import {
  askForToken,
  type Contender,
  compare,
  exampleAnswer,
  peer,
  postRequest,
  startInlay,
  startRedis,
  variety,
} from './load.ts'

const origin = 'https://shop.example.com'

/** Inlay on one store, with requests of visitors and of known end users, from an origin that the key allows. */
async function inlayContenders(store: string, settings: Record<string, string>): Promise<Contender[]> {
  const provider = await startTestProvider()
  const { pid, port, call } = await startInlay(store, settings)
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await call('PATCH', '/identity-providers/config', trust)
  const strangers: Buffer[] = []
  const people: Buffer[] = []
  for (let index = 0; index < variety; index++) {
    const wanted = { name: `Key ${index}`, allowed_origins: [origin] }
    const { key } = await call<{ key: string }>('POST', '/publishable-keys', wanted)
    const id_token = await provider.idToken({ sub: `person-${index}`, name: 'Ann', email: `ann${index}@example.com` })
    const ask = (body: Record<string, string>) => postRequest('/api/auth/pk-ticket', JSON.stringify(body), { origin })
    strangers.push(ask({ publishable_key: key }))
    people.push(ask({ publishable_key: key, id_token }))
    await call('POST', '/auth/pk-ticket', { publishable_key: key, id_token, embedding_origin: origin })
  }
  await provider.stop()
  return [
    { name: `Inlay, ${store}, key only`, port, pid, requests: strangers },
    { name: `Inlay, ${store}, key and ID token`, port, pid, requests: people },
  ]
}

/** The peers, with their data in memory or in Redis. */
async function peerContenders(store: string, redisUrl?: string): Promise<Contender[]> {
  const options = JSON.stringify({ count: variety, redisUrl })
  const betterAuth = await peer('./ticket-peers/better-auth.ts', options)
  const oidc = await peer('./ticket-peers/oidc-provider.ts', options)
  return [
    {
      name: `better-auth, ${store}, verify an API key`,
      ...betterAuth,
      requests: betterAuth.keys.map((key: string) => postRequest('/', JSON.stringify({ key }))),
    },
    { name: `oidc-provider, ${store}, client credentials`, ...oidc, requests: oidc.clients.map(askForToken) },
  ]
}

async function startContenders(): Promise<Contender[]> {
  const redisUrl = await startRedis()
  const onFile = await inlayContenders('file', {})
  const onRedis = await inlayContenders('Redis', { REDIS_URL: redisUrl })
  const [keyOnly] = onFile as [Contender, Contender]
  const raw = await peer('./ticket-peers/raw-http.ts', await exampleAnswer(keyOnly))
  return [
    { name: 'node:http, the same bytes', ...raw, requests: keyOnly.requests },
    ...onFile,
    ...(await peerContenders('memory')),
    ...onRedis,
    ...(await peerContenders('Redis', redisUrl)),
  ]
}

await compare(startContenders)
