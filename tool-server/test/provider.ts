import { randomUUID } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'

export interface TestProvider extends AsyncDisposable {
  issuer: string
  /** Signs any claims with the provider's key. */
  sign(claims: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
  /** Replaces the keys. The old ones are no longer published. */
  rotate(): Promise<void>
  /** Replaces the provider's responses. Undefined restores them. */
  behave(listener: RequestListener | undefined): void
  /** Adds to the published keys. */
  publish(jwk: JWK): void
  /** How often the keys were fetched. */
  keyFetches(): number
}

/** The part of an identity provider that a tool server sees: its discovery document and its keys. */
export async function startProvider(alg = 'ES256'): Promise<TestProvider> {
  let fetches = 0
  let published: JWK[] = []
  let privateKey: CryptoKey
  let behaviour: RequestListener | undefined
  const server = createServer((request, response) => {
    if (request.url === '/jwks') fetches += 1
    if (behaviour) return void behaviour(request, response)
    const discovery = { issuer, jwks_uri: `${issuer}/jwks` }
    const document = { '/jwks': { keys: published }, '/.well-known/openid-configuration': discovery }[request.url ?? '']
    response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(document))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function rotate(): Promise<void> {
    const pair = await generateKeyPair(alg, { extractable: true })
    privateKey = pair.privateKey
    published = [{ ...(await exportJWK(pair.publicKey)), kid: randomUUID(), use: 'sig', alg }]
  }
  await rotate()

  return {
    issuer,
    rotate,
    sign: (claims, header = {}) =>
      new SignJWT({ ...claims })
        .setProtectedHeader({ alg, kid: String(published[0]?.kid), typ: 'oauth-id-jag+jwt', ...header })
        .sign(privateKey),
    behave: (listener) => {
      behaviour = listener
    },
    publish: (jwk) => void published.push(jwk),
    keyFetches: () => fetches,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
