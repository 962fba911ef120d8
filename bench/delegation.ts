// Measures how many access tokens per second a tool server issues for assertions, compared with a node:http handler
// that only verifies one assertion and signs one token, and with oidc-provider's client credentials grant, which
// verifies none.
//
//   node bench/delegation.ts [--rounds=7] [--seconds=3] [--connections=32] [--only=<pattern>]
//
// load.ts explains the method. Assertions are signed with RS256, as by most identity providers, or with ES256 if marked
// so.

import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import { askForToken, type Contender, compare, form, peer, postRequest, variety } from './load.ts'

const issuer = 'https://idp.example.com'
const resource = 'https://tools.example.com/mcp'
const secret = 'a-secret-that-the-nodes-of-a-tool-server-share'
const clients = Array.from({ length: variety }, (_, index) => ({
  clientId: `hub-${index}`,
  clientSecret: `secret-of-hub-${index}`,
}))

async function makeAssertions(alg: 'RS256' | 'ES256') {
  const { privateKey, publicKey } =
    alg === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const kid = randomUUID()
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' }
  const assert = ({ clientId }: { clientId: string }) =>
    new SignJWT({ client_id: clientId, resource, scope: 'mcp:tools:read mcp:tools:call', email: 'ann@example.com' })
      .setProtectedHeader({ typ: 'oauth-id-jag+jwt', alg, kid })
      .setIssuer(issuer)
      .setSubject(randomUUID())
      .setAudience(resource)
      .setIssuedAt()
      .setExpirationTime('1 hour')
      .setJti(randomUUID())
      .sign(privateKey)
  const requests = clients.map(async (client) => {
    const fields = {
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: await assert(client),
      client_id: client.clientId,
      client_secret: client.clientSecret,
    }
    return postRequest('/oauth/token', new URLSearchParams(fields).toString(), form)
  })
  return { jwk, requests: await Promise.all(requests) }
}

async function startPair(alg: 'RS256' | 'ES256'): Promise<{ ways: Contender[]; toolServer: Contender }> {
  const { jwk, requests } = await makeAssertions(alg)
  const raw = async (way: string, name: string) => ({
    name: `node:http and ${name}, ${alg}`,
    ...(await peer('./delegation-peers/raw.ts', JSON.stringify({ jwk, alg, secret, way }))),
    requests,
  })
  const options = JSON.stringify({ jwk, issuer, resource, clients, secret })
  return {
    ways: [
      await raw('threads', 'node:crypto on other threads'),
      await raw('serving', 'node:crypto'),
      await raw('jose', 'jose'),
    ],
    toolServer: {
      name: `tool-server, ${alg}`,
      ...(await peer('./delegation-peers/tool-server.ts', options)),
      requests,
    },
  }
}

async function startContenders(): Promise<Contender[]> {
  const rsa = await startPair('RS256')
  const ec = await startPair('ES256')
  const oidc = await peer('./ticket-peers/oidc-provider.ts', JSON.stringify({ count: variety }))
  return [
    ...rsa.ways,
    rsa.toolServer,
    { name: 'oidc-provider, client credentials', ...oidc, requests: oidc.clients.map(askForToken) },
    ...ec.ways,
    ec.toolServer,
  ]
}

await compare(startContenders)
