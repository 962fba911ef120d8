import { selectClientAuthMethod } from '@modelcontextprotocol/client'
import type { Service } from '../../kernel/foundation/service.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'
import { ignoreUnreadable } from '../../kernel/lib/secrets.ts'
import { createFairQueue } from '../../kernel/lib/shares/fair-queue.ts'
import { selectStoredConnectors } from '../connectors/connectors.ts'
import { checkEndpoints, findAuthorizationServer } from '../connectors/server-metadata.ts'
import { keepFailure, StepFailed } from '../connectors/steps.ts'
import {
  type ConsentedToken,
  type Consenting,
  consentKey,
  explainConsentFailure,
  findConsentClient,
  readToken,
  takeToken,
} from './consent.ts'

type Client = NonNullable<Awaited<ReturnType<typeof findConsentClient>>>

/** For all tokens together, because a user waits for the response. */
const revokeWithinMs = 3_000
const revokedAtATime = 8

/** Deletes users' tokens here first, then revokes them at the third party on a best-effort basis. */
export async function disconnect(service: Service, everybody: readonly Consenting[]): Promise<void> {
  const held = await Promise.all(everybody.map(async (who) => ({ who, token: await withdrawToken(service, who) })))
  const signal = AbortSignal.timeout(revokeWithinMs)
  const inTurn = createFairQueue({ atATime: revokedAtATime, waiting: Number.POSITIVE_INFINITY })
  await Promise.all(held.map(({ who, token }) => token && inTurn('', () => tryToRevoke(service, who, token, signal))))
}

/** Deletes and revokes all tokens of a user who left the organization. */
export async function disconnectUser(service: Service, organizationId: string, userId: string): Promise<void> {
  const connectors = await service.database.asOrg(organizationId, (sql) => selectStoredConnectors(sql))
  await disconnect(
    service,
    connectors.map((connector) => ({ organizationId, connector, userId })),
  )
}

/** Kept until the third party has revoked the token, so that a crash in between doesn't leave it valid there. */
const withdrawnKey = (who: Consenting) => `withdrawn:${consentKey(who)}`
const withdrawnSeconds = 24 * 60 * 60

async function withdrawToken(service: Service, who: Consenting): Promise<ConsentedToken | undefined> {
  const token = await readToken(service, who)
  if (token?.issuer !== undefined) await service.kv.set(withdrawnKey(who), token, withdrawnSeconds)
  // Prefers a token that was renewed in the meantime.
  const latest = (await takeToken(service, who)) ?? token
  return latest ?? service.kv.get<ConsentedToken>(withdrawnKey(who)).catch(ignoreUnreadable)
}

async function tryToRevoke(service: Service, who: Consenting, token: ConsentedToken, signal: AbortSignal) {
  try {
    await revoke(service, who, token, signal)
  } catch (error) {
    if (isUnavailable(error)) throw error
    const late = new StepFailed('revocation', 'The server didn’t revoke the tokens in time', { cause: error })
    const problem = signal.aborted ? late : explainConsentFailure('revocation', error)
    service.log.warn({ err: problem }, 'could not revoke the tokens of a user who disconnected')
    if (problem instanceof StepFailed) keepFailure(service, who.organizationId, who.connector.name, problem)
  }
  if (token.issuer !== undefined) await service.kv.delete(withdrawnKey(who))
}

/** RFC 7009. Tokens are only sent to their issuer, regardless of the server's current metadata. */
async function revoke(service: Service, who: Consenting, token: ConsentedToken, signal: AbortSignal): Promise<void> {
  const { issuer, access_token, refresh_token } = token
  if (issuer === undefined) return
  const fetchInTime: typeof fetch = (input, init) => service.fetch(input, { ...init, signal })
  const server = (await findAuthorizationServer({ fetch: fetchInTime }, 'revocation', issuer)) ?? {}
  const { revocation_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = server
  if (typeof endpoint !== 'string') return
  checkEndpoints('revocation', { revocation_endpoint: endpoint }, issuer)
  const client = await findConsentClient(service, who, issuer)
  if (!client)
    throw new StepFailed('revocation', 'The client registration that the tokens were issued to is no longer known')
  const method = selectClientAuthMethod(client, Array.isArray(methods) ? methods : [])
  // Most servers revoke all tokens of a grant with its refresh token.
  const tokens = { ...(refresh_token !== undefined && { refresh_token }), access_token }
  for (const [token_type_hint, token] of Object.entries(tokens)) {
    const { headers, form } = authenticate(client, method)
    const body = new URLSearchParams({ token, token_type_hint, ...form })
    await requireRevoked(endpoint, await fetchInTime(endpoint, { method: 'POST', headers, body }))
  }
}

/** Authenticates in the same way as the library does at the token endpoint. */
function authenticate(
  { client_id, client_secret = '' }: Client,
  method: ReturnType<typeof selectClientAuthMethod>,
): { headers: Record<string, string>; form: Record<string, string> } {
  if (method === 'client_secret_basic')
    return { headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` }, form: {} }
  return { headers: {}, form: { client_id, ...(method === 'client_secret_post' && { client_secret }) } }
}

/** Invalid tokens count as revoked (RFC 7009). Some servers revoke only one type of token. */
async function requireRevoked(endpoint: string, response: Response): Promise<void> {
  if (response.status === 200) return
  const error = /"error"\s*:\s*"([a-z_]{1,40})"/.exec(await response.text())?.[1]
  if (error === 'unsupported_token_type') return
  throw new StepFailed('revocation', `${endpoint} responded with status ${response.status}${error ? `: ${error}` : ''}`)
}
