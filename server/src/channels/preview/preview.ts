import type { Models } from '../../agent/models/models.ts'
import { getAgentConfig } from '../../agent/settings/settings.ts'
import { type MemberCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { previewSubject } from '../../visitors/identity-provider/id-tokens.ts'
import { openKey } from '../../visitors/publishable-keys/keys.ts'
import type { PreviewTokens } from '../../visitors/tickets/preview-tokens.ts'
import type { startPreview as contract } from './contract.ts'

/** Lets a member talk to the agent in the dashboard, as an end user who belongs to the member. */
export async function startPreview(
  service: Service & { models: Models; previewTokens: PreviewTokens },
  caller: MemberCaller,
  { id }: Input<typeof contract>,
): Promise<Output<typeof contract>> {
  const { user, organization, email_verified, token: access } = caller
  const [publishable_key, end_user_id] = await service.database.asOrg(organization.id, async (sql) => [
    await openKey(service, sql, id),
    await admitPreviewer(sql, caller),
  ])
  const { token, expiresAt } = service.previewTokens.issue({
    organization_id: organization.id,
    publishable_key_id: id,
    end_user: {
      id: end_user_id,
      verified_email: email_verified ? user.email : undefined,
      provider: 'preview',
      previewer: { user_id: user.id, grant_id: access.grant_id, sign_in: access.sign_in },
    },
  })
  const { effective_model } = await getAgentConfig(service, caller)
  return {
    token,
    expires_at: new Date(expiresAt).toISOString(),
    publishable_key,
    end_user_id,
    model: { source: effective_model.source, name: effective_model.name },
  }
}

async function admitPreviewer(sql: Sql, caller: MemberCaller): Promise<string> {
  const { id: userId, email, name } = caller.user
  const [saved] = await sql<{ id: string; is_new: boolean }>`
    insert into end_users (organization_id, id, external_id, email, metadata, preview_user_id)
    values (current_organization(), ${newId()}, ${previewSubject + userId}, ${email}, ${JSON.stringify({ name })}, ${userId})
    on conflict (organization_id, issuer, external_id) do update set
      email = excluded.email, metadata = excluded.metadata, last_activity_at = now(),
      updated_at = case when (end_users.email, end_users.metadata) is distinct from (excluded.email, excluded.metadata)
                        then now() else end_users.updated_at end
    returning id, xmax = 0 as is_new`
  const { id, is_new } = saved as { id: string; is_new: boolean }
  if (is_new) await recordAudit(sql, trailOf(caller), 'end_user.created', id)
  return id
}
