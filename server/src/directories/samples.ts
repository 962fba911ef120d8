import { randomUUID } from 'node:crypto'
import type { TestService } from '../../test/harness.ts'
import { asOrg, type OperationSamples, post, type Slug } from '../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const newDirectory = () => ({ name: 'Sample', type: 'okta', domain: `d-${randomUUID()}.example` })
const directory = (app: TestService, slug: Slug) => post(app, slug, '/directories', newDirectory())

/** Bypasses the API, because not every plan includes directories. */
export async function fillTables(app: TestService, slug: Slug) {
  const id = randomUUID()
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into directories (organization_id, id, name, type, domain, status, token_hash)
      values (current_organization(), ${id}, 'Sample', 'okta', 'sample.example', 'inactive', ${id})`
    await sql`
      insert into directory_users (organization_id, directory_id, id, user_name)
      values (current_organization(), ${id}, ${randomUUID()}, 'ann')`
    await sql`
      insert into directory_groups (organization_id, directory_id, id, display_name)
      values (current_organization(), ${id}, ${randomUUID()}, 'Everybody')`
  })
}

export const operationSamples: OperationSamples<typeof contract> = {
  getDirectoryStatus: {},
  listDirectories: {},
  createDirectory: { body: newDirectory },
  getDirectory: { prepare: directory },
  updateDirectory: { prepare: directory, body: () => ({ name: 'Renamed' }) },
  deleteDirectory: { prepare: directory },
  listDirectoryUsers: { prepare: directory },
  listDirectoryGroups: { prepare: directory },
}
