import type { TestService } from '../../../test/harness.ts'
import { asOrg, post, type Slug } from '../../../test/sample-helpers.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'

export async function fillTables(app: TestService, slug: Slug): Promise<void> {
  const connector = { name: `c-${newId().slice(-8)}`, kind: 'oauth', server_url: 'http://127.0.0.1:9/mcp' }
  const { id } = await post(app, slug, '/connectors', connector)
  const endUserId = await addEndUser(app, await app.organization(slug))
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into end_user_consents (organization_id, connector_id, end_user_id)
      values (current_organization(), ${id}, ${endUserId})`,
  )
}
