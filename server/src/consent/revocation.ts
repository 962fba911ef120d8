import { selectClientAuthMethod } from '@modelcontextprotocol/client'
import { selectStoredConnectors } from '../connectors/connectors.ts'
import { checkEndpoints, findAuthorizationServer } from '../connectors/server-metadata.ts'
import { keepFailure, StepFailed } from '../connectors/steps.ts'
import type { Service } from '../foundation/service.ts'
import { isUnavailable } from '../lib/errors.ts'
import { createFairQueue } from '../lib/fair-queue.ts'
import { ignoreUnreadable } from '../lib/secrets.ts'
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

/** However many tokens there are: somebody waits for the answer. */
const revokeWithinMs = 3_000
const revokedAtATime = 8

/** Ends what people have allowed: here first and always, then at the third party, as far as it listens. */
export async function disconnect(service: Service, everybody: readonly Consenting[]): Promise<void> {
  const held = await Promise.all(everybody.map(async (who) => ({ who, token: await withdrawToken(service, who) })))
  const signal = AbortSignal.timeout(revokeWithinMs)
  const inTurn = createFairQueue({ atATime: revokedAtATime, waiting: Number.POSITIVE_INFINITY })
  await Promise.all(held.map(({ who, token }) => token && inTurn('', () => tryToRevoke(service, who, token, signal))))
}

/** A person is gone: what they have allowed goes too, and what was issued for them. */
export async function disconnectPerson(service: Service, organizationId: string, userId: string): Promise<void> {
  const connectors = await service.database.asOrg(organizationId, (sql) => selectStoredConnectors(sql))
  await disconnect(
    service,
    connectors.map((connector) => ({ organizationId, connector, userId })),
  )
}

/** Kept aside until the third party has been told: a crash in between must not leave the token valid there. */
const withdrawnKey = (who: Consenting) => `withdrawn:${consentKey(who)}`
const withdrawnSeconds = 24 * 60 * 60

async function withdrawToken(service: Service, who: Consenting): Promise<ConsentedToken | undefined> {
  const token = await readToken(service, who)
  if (token?.issuer !== undefined) await service.kv.set(withdrawnKey(who), token, withdrawnSeconds)
  // A token that was renewed meanwhile is the one that counts.
  const latest = (await takeToken(service, who)) ?? token
  return latest ?? service.kv.get<ConsentedToken>(withdrawnKey(who)).catch(ignoreUnreadable)
}

async function tryToRevoke(service: Service, who: Consenting, token: ConsentedToken, signal: AbortSignal) {
  try {
    await revoke(service, who, token, signal)
  } catch (error) {
    if (isUnavailable(error)) throw error
    const late = new StepFailed('revocation', 'The server did not revoke the tokens in time', { cause: error })
    const problem = signal.aborted ? late : explainConsentFailure('revocation', error)
    service.log.warn({ err: problem }, 'the tokens of somebody who disconnected could not be revoked')
    if (problem instanceof StepFailed) keepFailure(service.activity, who.organizationId, who.connector.name, problem)
  }
  if (token.issuer !== undefined) await service.kv.delete(withdrawnKey(who))
}

/** RFC 7009. Tokens are shown only to who has issued them, whatever the server says of itself today. */
async function revoke(service: Service, who: Consenting, token: ConsentedToken, signal: AbortSignal): Promise<void> {
  const { issuer, access_token, refresh_token } = token
  if (issuer === undefined) return
  const fetchInTime: typeof fetch = (input, init) => service.fetch(input, { ...init, signal })
  const server = (await findAuthorizationServer({ fetch: fetchInTime }, 'revocation', issuer)) ?? {}
  const { revocation_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = server
  if (typeof endpoint !== 'string') return
  checkEndpoints('revocation', { revocation_endpoint: endpoint }, issuer)
  const client = await findConsentClient(service, who, issuer)
  if (!client) throw new StepFailed('revocation', 'It is no longer known as which client the tokens were got')
  const method = selectClientAuthMethod(client, Array.isArray(methods) ? methods : [])
  // With the refresh token most servers end all that came of it.
  const tokens = { ...(refresh_token !== undefined && { refresh_token }), access_token }
  for (const [token_type_hint, token] of Object.entries(tokens)) {
    const { headers, form } = authenticate(client, method)
    const body = new URLSearchParams({ token, token_type_hint, ...form })
    await requireRevoked(endpoint, await fetchInTime(endpoint, { method: 'POST', headers, body }))
  }
}

/** As the library does it at the token endpoint, where it worked. */
function authenticate(
  { client_id, client_secret = '' }: Client,
  method: ReturnType<typeof selectClientAuthMethod>,
): { headers: Record<string, string>; form: Record<string, string> } {
  if (method === 'client_secret_basic')
    return { headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` }, form: {} }
  return { headers: {}, form: { client_id, ...(method === 'client_secret_post' && { client_secret }) } }
}

/** What is no token any more is revoked, too; some servers end only tokens of one type. */
async function requireRevoked(endpoint: string, response: Response): Promise<void> {
  if (response.status === 200) return
  const error = /"error"\s*:\s*"([a-z_]{1,40})"/.exec(await response.text())?.[1]
  if (error === 'unsupported_token_type') return
  throw new StepFailed('revocation', `${endpoint} answered with status ${response.status}${error ? `: ${error}` : ''}`)
}
