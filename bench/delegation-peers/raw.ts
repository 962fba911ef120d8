// The limit: a node:http server that verifies one assertion and signs one token, without other checks. It verifies with
// node:crypto, on another thread or on the main thread, or with jose.
import { createHmac, createPublicKey, verify } from 'node:crypto'
import { createServer } from 'node:http'
import { promisify } from 'node:util'
import { importJWK, jwtVerify, SignJWT } from 'jose'
import { announce } from '../ticket-peers/announce.ts'

const { jwk, alg, secret, way } = JSON.parse(process.argv[2] ?? '')
const verifyElsewhere = promisify(verify)
const publicKey = createPublicKey({ key: jwk, format: 'jwk' })
const hash = { RS256: 'sha256', ES256: 'sha256', EdDSA: null }[alg as string] ?? null
const key = { key: publicKey, dsaEncoding: 'ieee-p1363' as const }
const importedKey = await importJWK(jwk, alg)
const importedSecret = await crypto.subtle.importKey(
  'raw',
  Buffer.from(secret),
  { name: 'HMAC', hash: 'SHA-256' },
  false,
  ['sign'],
)
const header = Buffer.from('{"alg":"HS256","typ":"at+jwt"}').toString('base64url')
const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
const claimsOf = ({ sub = '', aud = '', scope = '' }: Record<string, string>) => {
  const now = Math.floor(Date.now() / 1000)
  return { iss: aud, aud, sub, scope, iat: now, exp: now + 1800, jti: crypto.randomUUID() }
}

async function withNode(assertion: string): Promise<string> {
  const end = assertion.lastIndexOf('.')
  const signed = Buffer.from(assertion.slice(0, end))
  const signature = Buffer.from(assertion.slice(end + 1), 'base64url')
  const isValid =
    way === 'threads' ? await verifyElsewhere(hash, signed, key, signature) : verify(hash, signed, key, signature)
  if (!isValid) throw new Error('The assertion is invalid')
  const claims = claimsOf(read(assertion.slice(assertion.indexOf('.') + 1, end)))
  const input = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}

async function withJose(assertion: string): Promise<string> {
  const { payload } = await jwtVerify(assertion, importedKey)
  return new SignJWT(claimsOf(payload as Record<string, string>))
    .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt' })
    .sign(importedSecret)
}

announce(
  createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', async () => {
      const assertion = new URLSearchParams(Buffer.concat(chunks).toString()).get('assertion') ?? ''
      const access_token = await (way === 'jose' ? withJose(assertion) : withNode(assertion))
      const body = JSON.stringify({ access_token, token_type: 'Bearer', expires_in: 1800 })
      const headers = { 'content-type': 'application/json', 'content-length': body.length }
      response.writeHead(200, headers).end(body)
    })
  }),
)
