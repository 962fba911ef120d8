import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import type * as contract from './contract.ts'

export const endUser = async (app: TestService, slug: Slug) => ({
  id: await addEndUser(app, await app.organization(slug)),
})

export const fillTables = (app: TestService, slug: Slug) => endUser(app, slug)

export const operationSamples: OperationSamples<typeof contract> = {
  listEndUsers: {},
  getEndUser: { prepare: endUser },
  listEndUserIssuers: {},
  carryOverEndUsers: {
    prepare: async (app, slug) => {
      await asOrg(
        app,
        slug,
        (sql) => sql`
          insert into identity_providers (organization_id, idp_type) values (current_organization(), 'google')
          on conflict (organization_id) do update set idp_type = 'google', idp_domain = null`,
      )
      await asOrg(
        app,
        slug,
        (sql) => sql`
          insert into end_users (organization_id, id, external_id) values (current_organization(), gen_random_uuid(), 'former')
          on conflict do nothing`,
      )
      return {}
    },
    body: () => ({
      from_issuer: null,
      by: 'list',
      users: [{ from: 'former', to: 'present' }],
      is_preview: false,
    }),
  },
}
