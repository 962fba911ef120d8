import { calculateJwkThumbprint, importJWK, type JWK } from 'jose'
import type { Caller } from './access-tokens.ts'
import { type Answer, answerJson } from './answers.ts'
import { type Checks, findBroken, isText, isTime } from './checks.ts'
import { type Headed, headerOf } from './headers.ts'
import { hasType, readJws, tokenSigner } from './jws.ts'
import { PublicKeys } from './public-keys.ts'
import { type Refusal, Refused, report } from './refusals.ts'
import { isAsymmetric } from './signatures.ts'

/** The header in which the token travels. */
export const transactionHeader = 'Txn-Token'

const type = 'txntoken+jwt'
/** In seconds. */
const defaultLifetime = 30
const longestLifetime = 300
/** In seconds. Less than elsewhere: the clocks are in one house, and the tokens live for seconds. */
const skew = 5

export interface TransactionTokensOptions {
  /** The tool server, which asks the services behind it. */
  issuer: string
  /** A private key as a JWK: EC P-256, Ed25519 or RSA. The services get its public half. */
  key: JWK
  /** Milliseconds since 1970. */
  clock?: () => number
}

export interface TransactionRequest {
  /** The one service that accepts the token. */
  audience: string
  /** The one operation that it allows. */
  operation: string
  /** For whom, as `verify` of the tool server said. */
  caller: Caller
  /** What the operation is about, for instance the number of an order. */
  details?: Record<string, unknown>
  /** In seconds, 1 to 300. Without it 30. */
  lifetime?: number
}

/** For the calls that a tool makes to the services behind its server. */
export function createTransactionTokens({ issuer, key, clock = Date.now }: TransactionTokensOptions) {
  const preparing = prepare(key)
  // Whoever mints is told; until then nobody listens.
  preparing.catch(() => undefined)

  async function mint({ audience, operation, caller, details, lifetime = defaultLifetime }: TransactionRequest) {
    if (!isText(audience)) throw new TypeError('A transaction token is for one service')
    if (!/^[^\s]+$/.test(operation)) throw new TypeError('A transaction token is for one operation')
    if (!(lifetime >= 1 && lifetime <= longestLifetime)) throw new RangeError('A transaction takes 1 to 300 seconds')
    const { sign } = await preparing
    const { subject, scopes: _, ...person } = caller
    const now = Math.floor(clock() / 1000)
    return sign({
      iss: issuer,
      aud: audience,
      sub: subject,
      scope: operation,
      txn: crypto.randomUUID(),
      req_wl: issuer,
      tctx: { ...details, ...person },
      iat: now,
      exp: now + lifetime,
    })
  }

  /** What the services verify the tokens with. */
  const jwks = async (): Promise<{ keys: JWK[] }> => ({ keys: [(await preparing).publicKey] })

  return { mint, jwks }
}

async function prepare(key: JWK) {
  const { kty, crv, x, y, n, e } = key
  const alg = key.alg ?? { EC: 'ES256', OKP: 'EdDSA', RSA: 'RS256' }[String(kty)]
  const privateKey = isAsymmetric(alg) && (await importJWK(key, alg, { extractable: true }))
  if (!privateKey || privateKey instanceof Uint8Array || privateKey.type !== 'private') {
    throw new TypeError('Transaction tokens are signed with a private key')
  }
  const kid = key.kid ?? (await calculateJwkThumbprint(key))
  const publicKey: JWK = JSON.parse(JSON.stringify({ kty, crv, x, y, n, e, alg, kid, use: 'sig' }))
  return { publicKey, sign: tokenSigner(privateKey, { alg: String(alg), typ: type, kid }) }
}

export interface TransactionVerifierOptions {
  /** The tool server that mints. */
  issuer: string
  /** This service. */
  audience: string
  /** The public keys of the tool server: while they change, the old and the new. */
  jwks: { keys: JWK[] }
  onRefusal?: (refusal: Refusal) => void
  /** Milliseconds since 1970. */
  clock?: () => number
}

export interface Transaction {
  id: string
  subject: string
  operation: string
  /** Who the person is beyond the subject, and what the operation is about. */
  context: Record<string, unknown>
}

export type VerifiedTransaction = { ok: true; transaction: Transaction } | { ok: false; answer: Answer }

interface Expected extends Pick<TransactionVerifierOptions, 'issuer' | 'audience'> {
  operation: string
  /** In seconds. */
  now: number
}

const checks = {
  issuer: ({ claims }, { issuer }) => claims.iss === issuer && claims.req_wl === issuer,
  audience: ({ claims }, { audience }) => claims.aud === audience,
  subject: ({ claims }) => isText(claims.sub),
  transaction: ({ claims }) => isText(claims.txn),
  expired: ({ claims }, { now }) => isTime(claims.exp) && claims.exp > now - skew,
  issued_at: ({ claims }, { now }) => isTime(claims.iat) && claims.iat <= now + skew,
  lifetime: ({ claims }) => Number(claims.exp) - Number(claims.iat) <= longestLifetime,
  operation: ({ claims }, { operation }) => claims.scope === operation,
} satisfies Checks<string, Expected>

export type TransactionReason = 'not_one' | 'format' | 'type' | 'unknown_key' | 'signature' | keyof typeof checks

/** At a service behind a tool server. */
export function createTransactionVerifier(options: TransactionVerifierOptions) {
  const { issuer, audience, jwks, onRefusal, clock = Date.now } = options
  const keys = new PublicKeys(jwks.keys)

  async function read(request: Headed, operation: string): Promise<Transaction> {
    const header = headerOf(request, transactionHeader)
    // One that came twice arrives joined by a comma.
    if (!header || header.includes(',')) refuse('not_one')
    const token = readJws(header) ?? refuse('format')
    const { alg, kid } = token.header
    if (!hasType(token, type) || !isAsymmetric(alg)) refuse('type')
    const verifySignature = (await keys.find(kid, alg)) ?? refuse('unknown_key')
    if (!(await verifySignature(token.signed, token.signature))) refuse('signature')
    const expected = { issuer, audience, operation, now: clock() / 1000 }
    const broken = findBroken<keyof typeof checks, Expected>(checks, token, expected)
    if (broken) refuse(broken)
    const { txn, sub, tctx } = token.claims as { txn: string; sub: string; tctx?: Record<string, unknown> }
    return { id: txn, subject: sub, operation, context: { ...tctx } }
  }

  async function verify(request: Headed, operation: string): Promise<VerifiedTransaction> {
    try {
      return { ok: true, transaction: await read(request, operation) }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      report(onRefusal, { of: 'transaction', reason: error.reason })
      const isKnown = error.reason === 'operation'
      const [status, code] = isKnown ? [403, 'insufficient_scope'] : [401, 'invalid_token']
      return { ok: false, answer: answerJson(Number(status), { error: code }, {}) }
    }
  }

  return { verify }
}

function refuse(reason: TransactionReason): never {
  throw new Refused(reason)
}
