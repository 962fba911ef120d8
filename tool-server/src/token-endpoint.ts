import { type Caller, readProfile } from './access-tokens.ts'
import { type Answer, answerJson } from './answers.ts'
import { type AssertionReason, findBrokenClaim } from './assertion-checks.ts'
import { skew, splitScope } from './checks.ts'
import { type Jws, readJws } from './jws.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { Refused } from './refusals.ts'
import type { ReplayStore } from './replays.ts'

export const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** A client, and the identity provider whose assertions it may bring. */
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
  /** Undefined when it was too long to be read. */
  body: string | undefined
}

export type GrantReason =
  | 'form'
  | 'grant_type'
  | 'client'
  | 'assertion'
  | AssertionReason
  | 'requested_resource'
  | 'provider_unreachable'
  | 'unknown_key'
  | 'signature'
  | 'replay_store_unreachable'
  | 'replayed'

/** The interface knows two errors. A form that cannot be read has no grant type. */
const errorOf = (reason: GrantReason): 'unsupported_grant_type' | 'invalid_grant' =>
  reason === 'form' || reason === 'grant_type' ? 'unsupported_grant_type' : 'invalid_grant'

const noStore = { 'cache-control': 'no-store' }

export const answerRefusedGrant = (reason: GrantReason): Answer => answerJson(400, { error: errorOf(reason) }, noStore)

/** Reads from the cheapest refusal to the dearest; nothing is fetched or verified for whoever is not a known client. */
export async function grant(endpoint: TokenEndpointOptions, request: TokenRequest, now: number): Promise<Answer> {
  const form = readForm(request)
  if (form.get('grant_type') !== grantType) refuse('grant_type')
  const hub = authenticate(endpoint.hubs, form, request.authorization)
  const assertion = readJws(form.get('assertion') ?? '') ?? refuse('assertion')
  const { resource, lifetime } = endpoint
  if ((form.get('resource') ?? resource) !== resource) refuse('requested_resource')
  const requested = form.has('scope') ? splitScope(form.get('scope')) : endpoint.scopes
  const scopes = endpoint.scopes.filter((scope) => requested.includes(scope))
  const broken = findBrokenClaim(assertion, { issuer: hub.issuer, resource, clientId: hub.clientId, scopes, now })
  if (broken) refuse(broken)
  await checkSignature(hub.keys, assertion)
  await spend(endpoint.replays, assertion)

  // `scope` is optional in an assertion: without it the client gets the scopes that it requests.
  const asserted = assertion.claims.scope === undefined ? undefined : splitScope(assertion.claims.scope)
  const granted = asserted ? scopes.filter((scope) => asserted.includes(scope)) : scopes
  const caller = {
    subject: assertion.claims.sub as string,
    issuer: hub.issuer,
    clientId: hub.clientId,
    scopes: granted,
    ...readProfile(assertion.claims),
  }
  const body = {
    access_token: await endpoint.issue(caller, now),
    token_type: 'Bearer',
    expires_in: lifetime,
    // RFC 6749, section 5.1: sent only if it differs from what the assertion says.
    scope: asserted && granted.length === new Set(asserted).size ? undefined : granted.join(' '),
  }
  return answerJson(200, body, noStore)
}

function refuse(reason: GrantReason, cause?: unknown): never {
  throw new Refused(reason, { cause })
}

function readForm({ contentType, body }: TokenRequest): Map<string, string> {
  const form = new Map<string, string>()
  if (body === undefined || !/^application\/x-www-form-urlencoded *(;|$)/i.test(contentType ?? '')) refuse('form')
  for (const [name, value] of new URLSearchParams(body)) {
    // RFC 6749, section 3.2: a parameter comes once, and one without a value has not come.
    if (form.has(name)) refuse('form')
    if (value !== '') form.set(name, value)
  }
  return form
}

/** By `client_secret_post` or `client_secret_basic`, never both at once. */
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

/** RFC 6749, section 2.3.1: both halves are form-encoded before they are joined. */
const decodeFormValue = (value: string): string => decodeURIComponent(value.replaceAll('+', ' '))

/** Takes as long for a wrong secret as for the right one. */
function isSecret(expected: Uint8Array, given: string): boolean {
  const bytes = encoder.encode(given)
  let difference = expected.length ^ bytes.length
  for (let index = 0; index < expected.length; index++) difference |= (expected[index] ?? 0) ^ (bytes[index] ?? 0)
  return difference === 0
}

const encoder = new TextEncoder()

async function checkSignature(keys: ProviderKeys, { header, signed, signature }: Jws): Promise<void> {
  const { kid, alg } = header as { kid: string; alg: string }
  const verify = await keys.find(kid, alg)
  if (!verify) refuse(keys.failure ? 'provider_unreachable' : 'unknown_key', keys.failure)
  if (!(await verify(signed, signature))) refuse('signature')
}

async function spend(replays: ReplayStore, { claims }: Jws): Promise<void> {
  let isFirst: boolean
  try {
    isFirst = await replays.claim(`${claims.iss} ${claims.jti}`, Number(claims.exp) + skew)
  } catch (error) {
    return refuse('replay_store_unreachable', error)
  }
  if (!isFirst) refuse('replayed')
}
