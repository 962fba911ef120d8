import { decodeJwt, type JWTHeaderParameters, type JWTPayload } from 'jose'
import { type Caller, readProfile } from './access-tokens.ts'
import { type Answer, answerJson, noStore } from './http.ts'
import { asymmetricAlgorithms, type Checks, check, isText, lifetimeOf, splitScope, verifyJwt } from './jwt.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { type Reason, refuse } from './refusals.ts'
import type { ReplayStore } from './replays.ts'

export const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

// In seconds. Identity providers issue assertions for about five minutes.
const longestLifetime = 3600
const skew = 60

const longestTokenId = 256

/** A client, and the identity provider whose assertions it can present. */
export interface TrustedHub {
  clientId: string
  secret: Uint8Array
  issuer: string
  keys: ProviderKeys
}

export interface TokenEndpointOptions {
  resource: string
  scopes: readonly string[]
  hubs: ReadonlyMap<string, TrustedHub>
  replays: ReplayStore
  issue(caller: Caller, now: number): Promise<string>
  lifetime: number
}

export interface TokenRequest {
  contentType: string | undefined
  authorization: string | undefined
  /** Undefined if the body was too long. */
  body: string | undefined
}

/** A form that can't be parsed has no grant type, so it gets the same error as an unsupported one. */
export const answerRefusedGrant = (reason: Reason): Answer => {
  const error = reason === 'form' || reason === 'grant_type' ? 'unsupported_grant_type' : 'invalid_grant'
  return answerJson(400, { error }, noStore)
}

/** Authenticates the client first, so that strangers cause no fetches and no signature checks. */
export async function grant(endpoint: TokenEndpointOptions, request: TokenRequest, now: number): Promise<Answer> {
  const form = readForm(request)
  if (form.get('grant_type') !== grantType) refuse('grant_type')
  const hub = authenticate(endpoint.hubs, form, request.authorization)
  const { resource, lifetime } = endpoint
  if ((form.get('resource') ?? resource) !== resource) refuse('requested_resource')
  const requested = form.has('scope') ? splitScope(form.get('scope')) : endpoint.scopes
  const scopes = endpoint.scopes.filter((scope) => requested.includes(scope))
  const claims = await verifyAssertion(form.get('assertion') ?? '', hub, resource, now)
  check(checks, claims, { resource, clientId: hub.clientId, scopes })
  await spend(endpoint.replays, claims)

  // `scope` is optional in an assertion: without it the client gets the scopes that it requests.
  const asserted = claims.scope === undefined ? undefined : splitScope(claims.scope)
  const granted = asserted ? scopes.filter((scope) => asserted.includes(scope)) : scopes
  const caller = {
    subject: String(claims.sub),
    issuer: hub.issuer,
    clientId: hub.clientId,
    scopes: granted,
    ...readProfile(claims),
  }
  const body = {
    access_token: await endpoint.issue(caller, now),
    token_type: 'Bearer',
    expires_in: lifetime,
    // RFC 6749, section 5.1: sent only if it differs from the scope of the assertion.
    scope: asserted && granted.length === new Set(asserted).size ? undefined : granted.join(' '),
  }
  return answerJson(200, body, noStore)
}

function readForm({ contentType, body }: TokenRequest): Map<string, string> {
  const form = new Map<string, string>()
  if (body === undefined || !/^application\/x-www-form-urlencoded *(;|$)/i.test(contentType ?? '')) refuse('form')
  for (const [name, value] of new URLSearchParams(body)) {
    // RFC 6749, section 3.2: parameters must not be repeated, and those without a value count as omitted.
    if (form.has(name)) refuse('form')
    if (value !== '') form.set(name, value)
  }
  return form
}

/** Accepts `client_secret_post` or `client_secret_basic`, but not both in one request. */
function authenticate(hubs: TokenEndpointOptions['hubs'], form: Map<string, string>, authorization?: string) {
  const inForm = { id: form.get('client_id'), secret: form.get('client_secret') }
  const given = authorization === undefined ? inForm : readBasic(authorization)
  const isAmbiguous =
    authorization !== undefined && (inForm.secret !== undefined || (inForm.id ?? given.id) !== given.id)
  const hub = hubs.get(given.id ?? '')
  if (isAmbiguous || !hub || !isSecret(hub.secret, given.secret ?? '')) refuse('client')
  return hub
}

function readBasic(authorization: string): { id?: string; secret?: string } {
  try {
    const pair = atob(/^Basic +([\w+/]+=*)$/i.exec(authorization)?.[1] ?? '')
    const [id, secret] = [pair.slice(0, pair.indexOf(':')), pair.slice(pair.indexOf(':') + 1)].map(decodeFormValue)
    return pair.includes(':') && id !== undefined && secret !== undefined ? { id, secret } : {}
  } catch {
    return {}
  }
}

/** RFC 6749, section 2.3.1: clients form-encode the id and the secret before joining them. */
const decodeFormValue = (value: string): string => decodeURIComponent(value.replaceAll('+', ' '))

/** Compares in constant time, so that the response time doesn't reveal how much of a secret is right. */
function isSecret(expected: Uint8Array, given: string): boolean {
  const bytes = encoder.encode(given)
  let difference = expected.length ^ bytes.length
  for (let index = 0; index < expected.length; index++) difference |= (expected[index] ?? 0) ^ (bytes[index] ?? 0)
  return difference === 0
}

const encoder = new TextEncoder()

function verifyAssertion(assertion: string, { issuer, keys }: TrustedHub, resource: string, now: number) {
  const findKey = async (header: JWTHeaderParameters) => {
    if (header.crit !== undefined) refuse('critical_header')
    if (!isText(header.kid)) refuse('key_id')
    try {
      return await keys.find(header)
    } catch (error) {
      // If another provider issued the assertion, that's the reason why the key is unknown.
      if (decodeJwt(assertion).iss !== issuer) refuse('issuer')
      throw error
    }
  }
  const options = {
    algorithms: asymmetricAlgorithms,
    typ: 'oauth-id-jag+jwt',
    issuer,
    audience: resource,
    requiredClaims: ['exp'],
    // With this option jose also refuses assertions that were issued in the future.
    maxTokenAge: longestLifetime,
    currentDate: new Date(now),
    clockTolerance: skew,
  }
  return verifyJwt(assertion, findKey, options, { format: 'assertion', algorithm: 'algorithm' })
}

interface Expected {
  clientId: string
  resource: string
  /** The scopes that can be granted. If the assertion has a scope, it must contain one of them. */
  scopes: readonly string[]
}

/** The rules for assertions that jose doesn't check. */
const checks: Checks<Expected> = {
  audience: ({ aud }, { resource }) => onlyOne(aud) === resource,
  client_id: ({ client_id }, { clientId }) => client_id === clientId,
  subject: ({ sub }) => isText(sub),
  lifetime: (claims) => lifetimeOf(claims) <= longestLifetime,
  resource: (claims, { resource }) => claims.resource === undefined || onlyOne(claims.resource) === resource,
  scope: ({ scope }, { scopes }) =>
    scope === undefined ? scopes.length > 0 : splitScope(scope).some((each) => scopes.includes(each)),
  token_id: ({ jti }) => isText(jti) && jti.length <= longestTokenId,
  // `cnf` requires a proof of possession, which this endpoint doesn't verify.
  confirmation: ({ cnf }) => cnf === undefined,
}

const onlyOne = (value: unknown): unknown => (Array.isArray(value) && value.length === 1 ? value[0] : value)

async function spend(replays: ReplayStore, { iss, jti, exp }: JWTPayload): Promise<void> {
  let isFirst: boolean
  try {
    isFirst = await replays.claim(`${iss} ${jti}`, Number(exp) + skew)
  } catch (error) {
    return refuse('replay_store_unreachable', error)
  }
  if (!isFirst) refuse('replayed')
}
