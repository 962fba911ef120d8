import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import type { OperationSamples, Slug } from '../../../test/sample-helpers.ts'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { foundOrganization } from '../../organizations/organizations/organizations.ts'
import { endUser } from '../../visitors/end-users/samples.ts'
import type * as contract from './contract.ts'

const doomedSlug = 'doomed'

async function doomedToken(app: TestService): Promise<string> {
  const founder = await findUserByEmail(app.service, 'admin@demo.test')
  if (!founder) throw new Error('The demo has no admin@demo.test')
  const { id } = await foundOrganization(app.service, { name: 'Doomed', slug: doomedSlug, founder })
  return issueAccessToken(app.service, {
    userId: founder.id,
    organizationId: id,
    audience: Object.values(resources(app.service.config.publicUrl)),
    lifetimeSeconds: 600,
  })
}

/** A receipt of the admin of the organization. */
async function receipt(app: TestService, slug: Slug) {
  const user = await findUserByEmail(app.service, `admin@${slug}.test`)
  const id = randomUUID()
  await app.service.database.asService(
    (sql) => sql`
      insert into organization_erasures (id, organization_hash, requested_by, counts, finished_at)
      values (${id}, 'x', ${user?.id}, '{"threads": 3}', now())`,
  )
  return { id }
}

export const operationSamples: OperationSamples<typeof contract> = {
  exportEndUser: { prepare: endUser },
  eraseEndUser: { prepare: endUser },
  deleteOrganization: { token: doomedToken, body: () => ({ slug: doomedSlug }) },
  getOrganizationErasure: { prepare: receipt },
}
