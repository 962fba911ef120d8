import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, post, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const newDirectory = () => ({ name: 'Sample', type: 'okta', domain: `d-${randomUUID()}.example` })
const directory = (app: TestService, slug: Slug) => post(app, slug, '/directories', newDirectory())

async function group(app: TestService, slug: Slug) {
  const { id } = await directory(app, slug)
  const group_id = randomUUID()
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into directory_groups (organization_id, directory_id, id, display_name)
      values (current_organization(), ${id}, ${group_id}, 'Everybody')`,
  )
  return { id, group_id }
}

/** Bypasses the API, because not every plan includes directories. */
export async function fillTables(app: TestService, slug: Slug) {
  const id = randomUUID()
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into directories (organization_id, id, name, type, domain, status)
      values (current_organization(), ${id}, 'Sample', 'okta', 'sample.example', 'inactive')`
    await sql`
      insert into directory_tokens (organization_id, directory_id, id, token_hash, last_four)
      values (current_organization(), ${id}, ${randomUUID()}, ${id}, 'last')`
    const [user, group] = [randomUUID(), randomUUID()]
    await sql`
      insert into directory_users (organization_id, directory_id, id, user_name)
      values (current_organization(), ${id}, ${user}, 'ann')`
    await sql`
      insert into directory_groups (organization_id, directory_id, id, display_name)
      values (current_organization(), ${id}, ${group}, 'Everybody')`
    await sql`
      insert into directory_group_members (organization_id, directory_id, group_id, user_id)
      values (current_organization(), ${id}, ${group}, ${user})`
    await sql`
      insert into directory_former_addresses (organization_id, user_id, email)
      values (current_organization(), ${user}, 'ann@sample.example')`
    await sql`
      insert into former_members (organization_id, id, email, ended_by)
      values (current_organization(), ${randomUUID()}, 'bo@sample.example', 'member')`
    await sql`insert into directory_leavers (organization_id, email) values (current_organization(), ${`${id}@sample.example`})`
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
  rotateDirectoryToken: { prepare: directory, body: () => ({ overlap_hours: 1 }) },
  updateDirectoryGroup: { prepare: group, body: () => ({ role: 'member' }) },
}
