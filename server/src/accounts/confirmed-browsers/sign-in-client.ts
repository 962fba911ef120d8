import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { TrustedIssuer } from '../../visitors/identity-provider/issuers.ts'
import { readTrustedIssuer } from '../../visitors/tickets/frames.ts'
import type * as contract from './contract.ts'

type FrameSignIn = Output<typeof contract.getFrameSignIn>

/** Each organization has a redirect URI of its own, as for the sign-in of its members. */
export const confirmRedirectUri = ({ config }: Pick<Service, 'config'>, organizationId: string): string =>
  `${config.publicUrl}/embed/confirm/${organizationId}/callback`

const placeOfSecret = (organizationId: string): string => `frame_sign_in.client_secret_sealed:${organizationId}`

export const getFrameSignIn = (service: Service, { organization }: OrgCaller): Promise<FrameSignIn> =>
  service.database.asOrg(organization.id, (sql) => describeFrameSignIn(service, sql, organization.id))

export async function setFrameSignIn(
  service: Service,
  caller: OrgCaller,
  { client_id, client_secret }: Input<typeof contract.setFrameSignIn>,
): Promise<FrameSignIn> {
  const { config, database, secrets } = service
  const { id } = caller.organization
  const sealed = client_secret ? secrets.seal(client_secret, placeOfSecret(id)) : null
  const last4 = client_secret?.slice(-4) ?? ''
  const keepsSecret = client_secret === undefined
  const result = await database.asOrg(id, async (sql) => {
    const trusted = await readTrustedIssuer(sql, config)
    if (!trusted) throw invalid('client_id', 'Set up the identity provider of your pages first.')
    // One statement, so that a stored secret is never combined with another issuer.
    const [changed] = await sql`
      insert into frame_sign_in as saved (organization_id, issuer, client_id, client_secret_sealed, client_secret_last4)
      values (current_organization(), ${trusted.issuer}, ${client_id}, ${sealed}, ${last4})
      on conflict (organization_id) do update set
        issuer = excluded.issuer, client_id = excluded.client_id,
        client_secret_sealed = case when ${keepsSecret} then saved.client_secret_sealed else excluded.client_secret_sealed end,
        client_secret_last4 = case when ${keepsSecret} then saved.client_secret_last4 else excluded.client_secret_last4 end,
        updated_at = now()
      where not ${keepsSecret} or saved.client_secret_sealed is null or saved.issuer = excluded.issuer
      returning organization_id`
    if (!changed)
      throw invalid(
        'client_secret',
        'Enter the client secret again. The saved one is only sent to the issuer it was saved for.',
      )
    const secret = !keepsSecret && { client_secret: client_secret === null ? 'removed' : 'set' }
    const settings = { issuer: trusted.issuer, client_id, ...secret }
    await recordAudit(sql, trailOf(caller), 'frame_sign_in.updated', id, settings)
    return describeFrameSignIn(service, sql, id)
  })
  service.changes.announce(topics.frames(id))
  return result
}

export async function deleteFrameSignIn(
  service: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.deleteFrameSignIn>> {
  const { id } = caller.organization
  const result = await service.database.asOrg(id, async (sql) => {
    const [deleted] = await sql`delete from frame_sign_in returning organization_id`
    if (deleted) await recordAudit(sql, trailOf(caller), 'frame_sign_in.deleted', id)
    return describeFrameSignIn(service, sql, id)
  })
  service.changes.announce(topics.frames(id))
  return result
}

async function describeFrameSignIn(service: Service, sql: Sql, organizationId: string): Promise<FrameSignIn> {
  const [client] = await sql<NonNullable<FrameSignIn['client']>>`
    select issuer, client_id, client_secret_last4, created_at, updated_at from frame_sign_in`
  const trusted = await readTrustedIssuer(sql, service.config)
  const reason = !trusted
    ? 'No identity provider is configured.'
    : !client
      ? 'No client is set.'
      : client.issuer !== trusted.issuer
        ? `The client was entered for ${client.issuer}. Enter the client of the current provider.`
        : null
  return {
    is_active: reason === null,
    reason,
    redirect_uri: confirmRedirectUri(service, organizationId),
    client: client ?? null,
  }
}

/** Where end users of the organization confirm their browsers. Undefined if no client is set for the current issuer. */
export interface ConfirmingProvider {
  trusted: TrustedIssuer
  client: { id: string; secret: string | undefined }
}

export async function findConfirmingProvider(
  { config, secrets }: Service,
  sql: Sql,
  organizationId: string,
): Promise<ConfirmingProvider | undefined> {
  const trusted = await readTrustedIssuer(sql, config)
  const [found] = await sql<{ client_id: string; client_secret_sealed: string | null }>`
    select client_id, client_secret_sealed from frame_sign_in where issuer = ${trusted?.issuer ?? null}`
  if (!trusted || !found) return undefined
  const { client_id: id, client_secret_sealed: sealed } = found
  return {
    trusted,
    client: { id, secret: sealed === null ? undefined : secrets.open(sealed, placeOfSecret(organizationId)) },
  }
}
