import type { AdapterPayload, AuthorizationDetail } from 'oidc-provider'
import type { SignIn } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { cleanName } from '../../kernel/lib/names.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { keepNewest } from '../../kernel/stores/keep-newest.ts'
import type { Kv } from '../../kernel/stores/kv.ts'
import { topics } from '../../kernel/stores/topics.ts'

/** Ids are hashed, because an id is often the secret itself. */
export const recordKey = (model: string, id: string): string => `oauth:${model}:${fingerprint(id)}`

/** `amr` carries the session generation: the library keeps it with the session and doesn't disclose it to clients. */
export const signInOfSession = ({ uid, amr }: { uid: string; amr?: string[] | undefined }): SignIn => ({
  session: uid,
  generation: Number(amr?.[0]),
})

const signInType = 'sign_in'
export const describeSignIn = (signIn: SignIn): AuthorizationDetail => ({ type: signInType, ...signIn })

export const signInOfGrant = (grant: { rar?: AuthorizationDetail[] | undefined } | undefined): SignIn | undefined =>
  grant?.rar?.find(({ type }) => type === signInType) as SignIn | undefined

export const grantSeconds = 365 * 24 * 60 * 60

const endedSessionKey = (uid: string) => `oauth:ended-session:${fingerprint(uid)}`

/** Kept for the maximum lifetime of a grant, so that grants still being created from the session are covered too. */
export const markEnded = (kv: Kv, uid: string): Promise<void> => kv.set(endedSessionKey(uid), true, grantSeconds)

/** Ended sessions, and grants issued from them, are not found. */
export async function findRecord(kv: Kv, model: string, id: string): Promise<AdapterPayload | undefined> {
  const payload = await kv.get<AdapterPayload>(recordKey(model, id))
  const session = model === 'Grant' ? signInOfGrant(payload)?.session : model === 'Session' ? payload?.uid : undefined
  return session && (await kv.get(endedSessionKey(session))) ? undefined : payload
}

export const hasGrant = async ({ kv }: Pick<Service, 'kv'>, id: string): Promise<boolean> =>
  (await findRecord(kv, 'Grant', id)) !== undefined

/** Codes and tokens are invalid without their grant, so deleting it revokes them all, even those still being issued. */
export async function revokeGrant({ kv, changes }: Pick<Service, 'kv' | 'changes'>, grantId: string): Promise<void> {
  await kv.delete(recordKey('Grant', grantId))
  changes.announce(topics.grant(grantId))
}

const day = 24 * 60 * 60
/** Longer than any grant lives. */
const usedClientSeconds = 400 * day

/**
 * Anyone may register a client. Until a user allows it access, it is kept separately for up to a day. One address can
 * register fewer than `limit` clients a day (accounts/sign-in/visit-limits.ts), so it can't evict all others.
 */
const unusedClients = { kind: 'oauth:clients', limit: 2_500, seconds: day }
const unusedClientKey = (clientId: string) => recordKey('UnusedClient', clientId)

export async function addClient(kv: Kv, clientId: string, metadata: AdapterPayload): Promise<void> {
  await keepNewest(kv, unusedClients, unusedClientKey(clientId))
  await kv.set(unusedClientKey(clientId), metadata, unusedClients.seconds)
}

export const findClient = async (kv: Kv, clientId: string): Promise<AdapterPayload | undefined> =>
  (await kv.get<AdapterPayload>(recordKey('Client', clientId))) ?? kv.get(unusedClientKey(clientId))

const longestShownName = 100

/** The name shown to users: the registered name, or the host of the client's metadata document. */
export async function readClientName(kv: Kv, clientId: string): Promise<string | undefined> {
  const metadata = await findClient(kv, clientId)
  const name = cleanName(String(metadata?.client_name ?? ''), longestShownName)
  return name || URL.parse(clientId)?.host || undefined
}

/** Keeps a registered client that a user has allowed. Clients with a metadata document aren't stored. */
export async function keepClient(kv: Kv, clientId: string): Promise<void> {
  const metadata = await findClient(kv, clientId)
  if (!metadata) return
  await kv.set(recordKey('Client', clientId), metadata, usedClientSeconds)
  await kv.delete(unusedClientKey(clientId))
}
