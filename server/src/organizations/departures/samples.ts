import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type Slug } from '../../../test/sample-helpers.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(
    app,
    slug,
    (sql) => sql`insert into departures (organization_id, person_id) values (current_organization(), ${randomUUID()})`,
  )
