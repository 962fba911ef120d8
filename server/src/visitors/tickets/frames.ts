import { hash } from 'node:crypto'
import { calculateJwkThumbprint, EmbeddedJWK, errors, jwtVerify } from 'jose'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readIdentityProvider } from '../identity-provider/identity-provider.ts'
import { findTrustedIssuer, type TrustedIssuer } from '../identity-provider/issuers.ts'
import { proofToleranceSeconds, type TicketHolder } from './signed-tickets.ts'

const longestProof = 2_048

/** What a proof is worth: a ticket for the key, with an ID that all tickets for the same proof have. */
export interface FrameProof {
  thumbprint: string
  ticketId: string
}

/**
 * Verifies that the caller has a key, by a DPoP proof (RFC 9449) for this exchange and this ID token. A proof that can't
 * be used is ignored: the exchange then is like one without a proof. So is one whose time is too far from ours: the clocks
 * of users' computers are often wrong, and their frames then correct the time and try again.
 *
 * Nothing is stored about proofs, because a program with the ID token can make any number of them, with any number of
 * keys. A repeated proof leads to a ticket with the same ID, of which only one can be redeemed.
 */
export async function readFrameProof(
  { config, clock }: Pick<Service, 'config' | 'clock'>,
  proof: string,
  idToken: string,
): Promise<FrameProof | undefined> {
  if (proof.length > longestProof) return undefined
  const now = clock()
  try {
    const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, {
      typ: 'dpop+jwt',
      algorithms: ['ES256'],
      currentDate: new Date(now),
      requiredClaims: ['jti', 'iat'],
    })
    const { htm, htu, ath, jti = '', iat = 0 } = payload
    const isForUs =
      htm === 'POST' &&
      htu === `${config.publicUrl}/api/auth/pk-ticket` &&
      ath === hash('sha256', idToken, 'base64url') &&
      Math.abs(iat - now / 1000) <= proofToleranceSeconds
    if (!isForUs || jti.length < 16 || jti.length > 64 || !protectedHeader.jwk) return undefined
    const thumbprint = await calculateJwkThumbprint(protectedHeader.jwk)
    return { thumbprint, ticketId: hash('sha256', `${thumbprint} ${jti}`, 'base64url').slice(0, 22) }
  } catch (error) {
    // A key that can't be imported fails with errors of the platform.
    if (error instanceof errors.JOSEError || error instanceof DOMException || error instanceof TypeError)
      return undefined
    throw error
  }
}

/** Whether a frame's key is confirmed for its user, and if not, whether it could be. */
export interface FrameStanding {
  is_confirmed: boolean
  can_confirm: boolean
  /** Whether what began in other frames is out of its reach, because pages of other sites could claim its origin. */
  has_other_sites: boolean
}

export const isSameFrame = (one: FrameStanding | undefined, other: FrameStanding | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** Undefined for visitors. The holders all belong to the transaction's organization. */
export async function findFrameStandings(
  sql: Sql,
  config: Service['config'],
  holders: readonly TicketHolder[],
): Promise<(FrameStanding | undefined)[]> {
  const users = holders.filter(({ end_user }) => end_user !== undefined)
  if (users.length === 0) return holders.map(() => undefined)
  const issuer = (await readTrustedIssuer(sql, config))?.issuer
  const [confirmed, client, [sites]] = await Promise.all([
    sql<{ end_user_id: string; thumbprint: string }>`
      select k.end_user_id, k.thumbprint
      from unnest(${users.map(({ end_user }) => end_user?.id)}::uuid[], ${users.map(({ frame_key }) => frame_key)}::text[])
             as asked (end_user_id, thumbprint)
      join frame_keys k on k.organization_id = (select current_organization())
                       and k.end_user_id = asked.end_user_id and k.thumbprint = asked.thumbprint
      join confirmed_browsers b on b.organization_id = k.organization_id and b.id = k.browser_id
      where b.expires_at > now() and b.issuer = ${issuer ?? null}`,
    sql`select from frame_sign_in where issuer = ${issuer ?? null}`,
    sql<{ has_one_site: boolean }>`select has_one_site()`,
  ])
  const keys = new Set(confirmed.map(({ end_user_id, thumbprint }) => `${end_user_id} ${thumbprint}`))
  return holders.map(({ end_user, frame_key }) => {
    if (!end_user) return undefined
    return {
      is_confirmed: keys.has(`${end_user.id} ${frame_key}`),
      can_confirm: frame_key !== undefined && issuer !== undefined && client.length > 0,
      has_other_sites: sites?.has_one_site !== true,
    }
  })
}

/** Undefined if no provider is trusted. */
export const readTrustedIssuer = async (sql: Sql, { mode }: Service['config']): Promise<TrustedIssuer | undefined> =>
  findTrustedIssuer(await readIdentityProvider(sql), mode)
