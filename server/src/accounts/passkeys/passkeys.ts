import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordForUser } from '../users/user-trail.ts'
import { localIssuer, type User } from '../users/users.ts'
import { relyingParty, userHandleOf } from './ceremonies.ts'

/** Loaded with the first passkey that is used: it takes a third of a second and 30 MB. */
const loadVerifier = () => import('@simplewebauthn/server')
const loadHelpers = () => import('@simplewebauthn/server/helpers')

export const mostPasskeys = 20
export const longestPasskeyName = 60

export interface Passkey {
  id: string
  name: string
  created_at: string
  last_used_at: string | null
}

export const listPasskeys = (
  { database }: Pick<Service, 'database'>,
  userId: string,
): Promise<(Passkey & { credential_id: string })[]> =>
  database.asService(
    (sql) => sql<Passkey & { credential_id: string }>`
      select id, name, created_at, last_used_at, credential_id from passkeys where user_id = ${userId} order by id`,
  )

/** Credential IDs have at most 1023 bytes. */
const credentialId = z.base64url().min(1).max(1364)
const encoded = z.base64url().max(12_000)
const common = { id: credentialId, rawId: credentialId, type: z.literal('public-key') }
const noExtensions = z.object({}).default({})

const Registration = z.object({
  ...common,
  response: z.object({ clientDataJSON: encoded, attestationObject: encoded }),
  clientExtensionResults: noExtensions,
})

const Assertion = z.object({
  ...common,
  response: z.object({
    clientDataJSON: encoded,
    authenticatorData: encoded,
    signature: encoded,
    userHandle: z.base64url().max(100),
  }),
  clientExtensionResults: noExtensions,
})

/** A browser's response in a form. */
interface Given {
  /** The token of the form, which the caller has taken: a challenge works once. */
  challenge: string
  /** JSON, from a client that isn't trusted. */
  response: string
}

export type AddOutcome = 'added' | 'refused' | 'known' | 'too many'

export async function addPasskey(
  service: Service,
  { id: userId }: { id: string },
  { name, challenge, response }: Given & { name: string },
): Promise<AddOutcome> {
  const credential = await verifyRegistration(service, { challenge, response })
  if (!credential) return 'refused'
  const { id: credentialId, publicKey, counter } = credential
  return service.database.asService(async (sql) => {
    // Concurrent requests of the user wait for each other, so that the limit is exact.
    await sql`select from users where id = ${userId} for update`
    const [{ count } = { count: 0 }] = await sql<{ count: number }>`
      select count(*)::int as count from passkeys where user_id = ${userId}`
    if (count >= mostPasskeys) return 'too many'
    const added = await sql`
      insert into passkeys (id, user_id, name, credential_id, public_key, counter)
      values (${newId()}, ${userId}, ${name}, ${credentialId}, ${Buffer.from(publicKey).toString('base64url')}, ${counter})
      on conflict (credential_id) do nothing returning id`
    if (added.length === 0) return 'known'
    await recordForUser(sql, userId, { action: 'user.passkey_added', data: { name } })
    return 'added'
  })
}

async function verifyRegistration(service: Service, { challenge, response }: Given) {
  const given = Registration.safeParse(readJson(response))
  if (!given.success) return undefined
  const { origin, rpId } = relyingParty(service)
  try {
    await refuseCertificates(given.data.response.attestationObject)
    const { verifyRegistrationResponse } = await loadVerifier()
    const { registrationInfo } = await verifyRegistrationResponse({
      response: given.data,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
    })
    return registrationInfo?.credential
  } catch (error) {
    return explain(service, error)
  }
}

/** We ask for no attestation. The library would fetch URLs that are in a certificate, so a client could choose them. */
async function refuseCertificates(attestationObject: string): Promise<void> {
  const { decodeAttestationObject } = await loadHelpers()
  const attestation = decodeAttestationObject(new Uint8Array(Buffer.from(attestationObject, 'base64url')))
  const isSelfSigned = attestation.get('fmt') === 'packed' && attestation.get('attStmt').get('x5c') === undefined
  if (attestation.get('fmt') !== 'none' && !isSelfSigned) throw new Error('The attestation has certificates')
}

interface StoredPasskey extends User {
  passkey_id: string
  credential_id: string
  public_key: string
  counter: number
}

export type PasskeyOutcome =
  | { is: 'right'; user: User }
  /** `user` is the owner of the passkey, if it is known. */
  | { is: 'refused'; user?: User }

/** Finds the owner of a passkey, and checks that they just used it for this challenge. */
export async function checkPasskey(service: Service, { challenge, response }: Given): Promise<PasskeyOutcome> {
  const given = Assertion.safeParse(readJson(response))
  const stored = given.success ? await findPasskey(service, given.data.id) : undefined
  if (!given.success || !stored) return { is: 'refused' }
  const { id, email, name, session_generation } = stored
  const user = { id, email, name, session_generation }
  const counter =
    given.data.response.userHandle === userHandleOf(id)
      ? await verifyAssertion(service, stored, { challenge, response: given.data })
      : undefined
  return counter !== undefined && (await recordUse(service, stored, counter))
    ? { is: 'right', user }
    : { is: 'refused', user }
}

async function findPasskey({ database }: Service, credentialId: string): Promise<StoredPasskey | undefined> {
  const [stored] = await database.asService(
    (sql) => sql<StoredPasskey>`
      select u.id, u.email, u.name, u.session_generation, p.id as passkey_id, p.credential_id, p.public_key, p.counter
      from passkeys p join users u on u.id = p.user_id
      where p.credential_id = ${credentialId} and u.issuer = ${localIssuer}`,
  )
  return stored
}

/** Returns the authenticator's new counter. */
async function verifyAssertion(
  service: Service,
  { credential_id, public_key, counter }: StoredPasskey,
  { challenge, response }: { challenge: string; response: z.infer<typeof Assertion> },
): Promise<number | undefined> {
  const { origin, rpId } = relyingParty(service)
  const { verifyAuthenticationResponse } = await loadVerifier()
  const publicKey = new Uint8Array(Buffer.from(public_key, 'base64url'))
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      credential: { id: credential_id, publicKey, counter: Number(counter) },
      requireUserVerification: true,
    })
    return verified ? authenticationInfo.newCounter : undefined
  } catch (error) {
    return explain(service, error)
  }
}

/** False if the passkey was removed, or used concurrently with the same counter. */
async function recordUse(service: Service, { passkey_id }: StoredPasskey, counter: number): Promise<boolean> {
  const used = await service.database.asService(
    (sql) => sql`
      update passkeys set counter = ${counter}, last_used_at = ${new Date(service.clock()).toISOString()}
      where id = ${passkey_id} and (counter < ${counter} or (counter = 0 and ${counter} = 0)) returning id`,
  )
  return used.length > 0
}

export const removePasskey = (
  { database }: Pick<Service, 'database'>,
  userId: string,
  passkeyId: string,
): Promise<void> =>
  database.asService(async (sql) => {
    const [removed] = await sql<{ name: string }>`
      delete from passkeys where user_id = ${userId} and id = ${passkeyId} returning name`
    if (removed) await recordForUser(sql, userId, { action: 'user.passkey_removed', data: removed })
  })

/** For the operator. Returns the names of the removed passkeys. */
export const removeAllPasskeys = ({ database }: Pick<Service, 'database'>, userId: string): Promise<string[]> =>
  database.asService(async (sql) => {
    const removed = await sql<{ name: string }>`delete from passkeys where user_id = ${userId} returning name`
    const names = removed.map(({ name }) => name)
    for (const name of names) {
      await recordForUser(sql, userId, { action: 'user.passkey_removed', actor: 'operator', data: { name } })
    }
    return names
  })

/** The library throws if a response isn't valid. The user can't do anything about the cause, but the operator may. */
function explain({ log }: Service, error: unknown): undefined {
  log.info({ reason: String(error).slice(0, 300) }, 'refused a passkey')
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
