import { calculateJwkThumbprint, createLocalJWKSet, importJWK, type JWK, SignJWT } from 'jose'
import type { Caller } from './access-tokens.ts'
import { type Answer, answerJson, type Headed, headerOf } from './http.ts'
import { asymmetricAlgorithms, type Checks, check, isText, lifetimeOf, verifyJwt } from './jwt.ts'
import { type Refusal, refuse, report } from './refusals.ts'

/** The header that carries the token. */
export const transactionHeader = 'Txn-Token'

const typ = 'txntoken+jwt'
// Times are in seconds.
const defaultLifetime = 30
const longestLifetime = 300
/** Less than for other tokens, because the same team runs these services and the tokens only live for seconds. */
const skew = 5

export interface TransactionTokensOptions {
  /** The tool server, which calls the services behind it. */
  issuer: string
  /** A private key as a JWK: EC P-256, Ed25519 or RSA. Give the services the public key from `jwks`. */
  key: JWK
  /** Returns milliseconds since 1970. */
  clock?: () => number
}

export interface TransactionRequest {
  /** The only service that accepts the token. */
  audience: string
  /** The only operation that the token allows. */
  operation: string
  /** The caller that the tool server's `verify` returned. */
  caller: Caller
  /** What the operation is about, for example the number of an order. */
  details?: Record<string, unknown>
  /** In seconds, 1 to 300. Default: 30. */
  lifetime?: number
}

/** Creates tokens for calls from a tool server to the services behind it. */
export function createTransactionTokens({ issuer, key, clock = Date.now }: TransactionTokensOptions) {
  const preparing = prepare(key)
  // `mint` and `jwks` throw this error later. Without this line, Node would exit because of an unhandled rejection.
  preparing.catch(() => undefined)

  async function mint({ audience, operation, caller, details, lifetime = defaultLifetime }: TransactionRequest) {
    if (!isText(audience)) throw new TypeError('audience must name one service')
    if (!/^[^\s]+$/.test(operation)) throw new TypeError('operation must name one operation, without spaces')
    if (!(lifetime >= 1 && lifetime <= longestLifetime)) throw new RangeError('lifetime must be 1 to 300 seconds')
    const { privateKey, header } = await preparing
    const { subject, scopes: _, ...person } = caller
    const now = Math.floor(clock() / 1000)
    return new SignJWT({
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
      .setProtectedHeader(header)
      .sign(privateKey)
  }

  /** The public key that services verify the tokens with. */
  const jwks = async (): Promise<{ keys: JWK[] }> => ({ keys: [(await preparing).publicKey] })

  return { mint, jwks }
}

async function prepare(key: JWK) {
  const { kty, crv, x, y, n, e } = key
  const alg = key.alg ?? { EC: 'ES256', OKP: 'EdDSA', RSA: 'RS256' }[String(kty)]
  const privateKey = alg && asymmetricAlgorithms.includes(alg) && (await importJWK(key, alg))
  if (!privateKey || privateKey instanceof Uint8Array || privateKey.type !== 'private') {
    throw new TypeError('key must be a private key: EC P-256, Ed25519 or RSA')
  }
  const kid = key.kid ?? (await calculateJwkThumbprint(key))
  const publicKey: JWK = JSON.parse(JSON.stringify({ kty, crv, x, y, n, e, alg, kid, use: 'sig' }))
  return { publicKey, privateKey, header: { alg, typ, kid } }
}

export interface TransactionVerifierOptions {
  /** The tool server that creates the tokens. */
  issuer: string
  /** This service. */
  audience: string
  /** The tool server's public keys: during a key rotation, both the old and the new one. */
  jwks: { keys: JWK[] }
  onRefusal?: (refusal: Refusal) => void
  /** Returns milliseconds since 1970. */
  clock?: () => number
}

export interface Transaction {
  id: string
  subject: string
  operation: string
  /** The caller's other properties, and the details of the operation. */
  context: Record<string, unknown>
}

export type VerifiedTransaction = { ok: true; transaction: Transaction } | { ok: false; answer: Answer }

const checks: Checks<{ issuer: string; audience: string; operation: string }> = {
  issuer: ({ req_wl }, { issuer }) => req_wl === issuer,
  audience: ({ aud }, { audience }) => aud === audience,
  subject: ({ sub }) => isText(sub),
  transaction: ({ txn }) => isText(txn),
  lifetime: (claims) => lifetimeOf(claims) <= longestLifetime,
  operation: ({ scope }, { operation }) => scope === operation,
}

/** Verifies transaction tokens at a service behind a tool server. */
export function createTransactionVerifier(options: TransactionVerifierOptions) {
  const { issuer, audience, jwks, onRefusal, clock = Date.now } = options
  const keys = createLocalJWKSet(jwks)

  async function read(request: Headed, operation: string): Promise<Transaction> {
    const token = headerOf(request, transactionHeader)
    // Repeated headers arrive joined by a comma.
    if (!token || token.includes(',')) refuse('not_one')
    const claims = await verifyJwt(token, keys, {
      algorithms: asymmetricAlgorithms,
      typ,
      issuer,
      audience,
      requiredClaims: ['exp'],
      // With this option jose also refuses tokens that were issued in the future.
      maxTokenAge: longestLifetime,
      currentDate: new Date(clock()),
      clockTolerance: skew,
    })
    check(checks, claims, { issuer, audience, operation })
    const { txn, sub, tctx } = claims as { txn: string; sub: string; tctx?: Record<string, unknown> }
    return { id: txn, subject: sub, operation, context: { ...tctx } }
  }

  async function verify(request: Headed, operation: string): Promise<VerifiedTransaction> {
    try {
      return { ok: true, transaction: await read(request, operation) }
    } catch (error) {
      const isOperation = report(onRefusal, 'transaction', error) === 'operation'
      const answer = isOperation
        ? answerJson(403, { error: 'insufficient_scope' }, {})
        : answerJson(401, { error: 'invalid_token' }, {})
      return { ok: false, answer }
    }
  }

  return { verify }
}
