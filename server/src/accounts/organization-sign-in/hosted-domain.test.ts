import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { admitFromOrganization } from './admission.ts'

const google = 'https://accounts.google.com'
let app: TestService
let demo: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  await app.service.database.asOrg(demo, async (sql) => {
    await sql`update organizations set plan_id = 'enterprise'`
    await sql`
      insert into sign_in_providers (organization_id, issuer, client_id, joins_on_first_sign_in)
      values (${demo}, ${google}, 'inlay', true)`
    for (const domain of ['acme.example', 'second.example'])
      await sql`
        insert into sign_in_domains (organization_id, id, domain, token, verified_at)
        values (${demo}, ${randomUUID()}, ${domain}, 'sample', now())`
  })
})
afterAll(() => app.close())

const enter = (claims: Record<string, unknown>) =>
  admitFromOrganization(
    app.service,
    { organization: { id: demo, name: 'Demo' }, client: { issuer: google, id: 'inlay', secret: undefined } },
    { sub: randomUUID(), name: 'Ann', email: `${randomUUID()}@acme.example`, email_verified: true, ...claims },
    '127.0.0.1',
  )

test.each([
  ['of the organization’s Workspace', { hd: 'acme.example' }, 'admitted'],
  ['of the Workspace under another of its domains', { hd: 'second.example' }, 'admitted'],
  ['of the Workspace, spelled otherwise', { hd: 'ACME.example' }, 'admitted'],
  ['of nobody’s Workspace with the organization’s address', {}, 'explained'],
  ['of another Workspace', { hd: 'other.example' }, 'explained'],
  ['with a list of Workspaces', { hd: ['acme.example'] }, 'explained'],
])(
  'a Google account %s is only admitted if one of the organization’s domains manages it',
  async (_, claims, outcome) => {
    const admission = await enter(claims)
    expect(admission).toMatchObject({ is: outcome })
    if (outcome === 'explained') expect(admission).toMatchObject({ title: 'You can’t sign in with this account' })
  },
)
