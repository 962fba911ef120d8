import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { files, floorsOf, importsOf, isTestCode, readRooms, textOf, type Wing, wingOf, wings } from './wings.ts'

/**
 * Checks the structure of `server/src` in docs/architecture.md. Biome checks for import cycles and imports of the roof.
 */

/** The folders of `kernel`, from the bottom up: each imports only those before it. */
const ground = ['lib', 'net', 'config', 'stores', 'foundation', 'jobs', 'http', 'untrusted']

test('the program imports no tests and no samples', () => {
  const isFromTests = (target: string) => isTestCode(target) || target.startsWith('../test/')
  expect(files.filter((file) => importsOf(file).some(isFromTests))).toEqual([])
})

const isAfter = (wing: Wing, other: Wing) => wings.indexOf(wing) > wings.indexOf(other)

test('a wing imports only those before it', () => {
  const wrong = files.flatMap((file) => {
    const wing = wingOf(file)
    const targets = importsOf(file).filter((target) => {
      const other = wingOf(target)
      return wing && other && isAfter(other, wing)
    })
    return targets.map((target) => `${file} imports ${target}`)
  })
  expect(wrong).toEqual([])
})

test.each(wings)('the rooms of %s import each other in one direction', (wing) => {
  const standing = new Set(floorsOf(wing).flat())
  expect([...readRooms(wing).keys()].filter((room) => !standing.has(room))).toEqual([])
})

test.each(wings)('the page of %s names files and folders that exist', (wing) => {
  const page = readFileSync(join(import.meta.dirname, '../src', wing, 'README.md'), 'utf8')
  const named = [...page.matchAll(/`((?:\.\.\/)?[a-z][\w-]*\/[\w./-]*)`/g)].map(([, path = '']) => path)
  expect(named).not.toEqual([])
  expect(named.filter((path) => !existsSync(join(import.meta.dirname, '../src', wing, path)))).toEqual([])
})

test('the folders of the kernel import each other in order', () => {
  const rooms = readRooms('kernel')
  expect([...rooms.keys()].sort()).toEqual(ground.map((name) => `kernel/${name}`).sort())
  for (const [index, name] of ground.entries()) {
    const allowed = new Set(ground.slice(0, index).map((each) => `kernel/${each}`))
    const wrong = [...(rooms.get(`kernel/${name}`) ?? [])].filter((room) => !allowed.has(room))
    expect(wrong, name).toEqual([])
  }
})

/** Which wing's rows a table has. */
const tablesOf: Record<Wing, readonly string[]> = {
  kernel: ['audit_chains', 'audit_events', 'audit_keys', 'jobs', 'list_totals'],
  plans: [
    ...['billing_deliveries', 'budget_periods', 'budgets', 'end_user_budgets', 'subscriptions'],
    ...['unreported_usage', 'usage_end_user_spans', 'usage_end_users', 'usage_events', 'usage_model_days'],
    ...['usage_ranked_end_users', 'usage_rankings', 'usage_site_days'],
  ],
  organizations: [
    ...['audit_verifications', 'directories', 'directory_former_addresses', 'directory_group_members'],
    ...['directory_groups', 'directory_leavers', 'directory_tokens', 'directory_users', 'former_members'],
    ...['invitations', 'mail_outbox', 'members', 'organizations', 'refusals'],
  ],
  visitors: ['end_users', 'identity_providers', 'publishable_keys', 'sites', 'unallowed_origins'],
  accounts: [
    ...['confirmed_browsers', 'frame_keys', 'frame_sign_in', 'passkeys', 'recovery_codes', 'second_factors'],
    ...['service_accounts', 'sign_in_domains', 'sign_in_providers', 'users'],
  ],
  content: [
    ...['github_apps', 'github_deliveries', 'github_installations', 'github_repositories', 'organization_skills'],
    'organization_skill_versions',
  ],
  tools: [...['connectors', 'end_user_consents', 'governance_providers', 'tool_call_contents', 'tool_call_records']],
  agent: [
    ...['agent_settings', 'conversation_retention', 'feedback', 'messages', 'model_calls', 'runs', 'step_texts'],
    ...['steps', 'threads', 'tool_calls'],
  ],
  channels: [],
  console: ['organization_erasures'],
}

/** Files whose SQL names tables of a later wing, and why it isn't the other way round. */
const exceptions: Record<string, { tables: readonly string[]; why: string }> = {
  'kernel/stores/audit/audit.ts': {
    tables: ['members', 'service_accounts'],
    why: 'locks the role of whoever makes a change in the transaction that makes it',
  },
  'kernel/untrusted/long-results.ts': {
    tables: ['tool_calls'],
    why: 'reads a long result of the agent’s in parts, for the agent and for the hub',
  },
  'plans/billing/usage-reports.ts': {
    tables: ['organizations'],
    why: 'stops marking the usage of an organization as unreported',
  },
  'plans/billing/webhooks.ts': { tables: ['organizations'], why: 'finds whom a webhook is about' },
  'plans/budgets/budgets.ts': {
    tables: ['end_users', 'organizations'],
    why: 'budgets belong to an organization or an end user',
  },
  'plans/budgets/reservations.ts': { tables: ['end_users'], why: 'charges the end user that another was merged into' },
  'plans/plans/plans.ts': {
    tables: ['end_users', 'invitations', 'members', 'organization_skills', 'organizations', 'sites'],
    why: 'counts what a plan limits',
  },
  'plans/subscriptions/subscriptions.ts': { tables: ['organizations'], why: 'sets the plan of an organization' },
  'plans/usage/demo-usage.ts': { tables: ['end_users', 'sites'], why: 'invents usage together with who used it' },
  'plans/usage/record.ts': {
    tables: ['end_users', 'organizations', 'sites'],
    why: 'locks whom usage is counted for, so that it isn’t deleted meanwhile',
  },
  'plans/usage/usage.ts': { tables: ['end_users', 'sites'], why: 'names whom usage is counted for' },
  'organizations/diagnostics/warnings.ts': {
    tables: ['identity_providers', 'publishable_keys', 'unallowed_origins'],
    why: 'warns about settings that don’t fit each other',
  },
  'organizations/directories/claims.ts': { tables: ['users'], why: 'members are users' },
  'organizations/directories/deprovisioned.ts': {
    tables: ['confirmed_browsers', 'end_users'],
    why: 'ends the access of those with an address that a directory has deactivated',
  },
  'organizations/directories/membership.ts': {
    tables: ['sign_in_domains', 'users'],
    why: 'creates the users of a directory in domains that the organization has proven',
  },
  'organizations/directories/notices.ts': { tables: ['users'], why: 'writes to members, who are users' },
  'organizations/organizations/invitations.ts': {
    tables: ['sign_in_domains', 'sign_in_providers', 'users'],
    why: 'tells invited people how they sign in',
  },
  'organizations/organizations/members.ts': { tables: ['users'], why: 'members are users' },
  'organizations/organizations/organizations.ts': {
    tables: ['service_accounts', 'users'],
    why: 'lists the organizations of a caller, also of a service account',
  },
  'visitors/end-users/carry-over.ts': {
    tables: ['end_user_consents', 'threads', 'tool_call_contents'],
    why: 'merges two end users, with all that is theirs',
  },
  'visitors/end-users/held-identities.ts': {
    tables: ['connectors'],
    why: 'keeps ID tokens only if a connector needs them',
  },
  'visitors/identity-provider/identity-provider.ts': {
    tables: ['confirmed_browsers'],
    why: 'forgets what another provider has confirmed',
  },
  'visitors/sites/sites.ts': { tables: ['threads'], why: 'keeps the threads of a site that is deleted' },
  'visitors/tickets/frames.ts': {
    tables: ['confirmed_browsers', 'frame_keys', 'frame_sign_in'],
    why: 'looks up what a frame’s key is worth in the query that every ticket needs',
  },
  'visitors/tickets/standing.ts': { tables: ['users'], why: 'checks previews, whose end users are members' },
  'tools/consent/end-user-consents.ts': {
    tables: ['runs', 'threads', 'tool_calls'],
    why: 'finds the conversation for which an account was connected',
  },
}

test('SQL names no tables of later wings, with the exceptions that say why', () => {
  const wingOfTable = new Map(wings.flatMap((wing) => tablesOf[wing].map((table) => [table, wing] as const)))
  const named = files.flatMap((file) => {
    const wing = wingOf(file)
    if (!wing) return []
    const code = textOf(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    const tables = [...code.matchAll(/\b(?:from only|from|join|into|update)\s+(\w+)/g)].map(([, name = '']) => name)
    const later = [...new Set(tables)].filter((name) => {
      const owner = wingOfTable.get(name)
      return owner !== undefined && isAfter(owner, wing)
    })
    return later.length > 0 ? [[file, later.sort()]] : []
  })
  expect(Object.fromEntries(named)).toEqual(
    Object.fromEntries(Object.entries(exceptions).map(([file, { tables }]) => [file, tables])),
  )
})

test('SQL names the columns that it reads, because prepared statements fail when a migration adds one to them', () => {
  const tables = new Set(Object.values(tablesOf).flat())
  const named = files.flatMap((file) =>
    [...textOf(file).matchAll(/select \*(?:,[^`]*?)? from (\w+)/g)].map(([, table = '']) => ({ file, table })),
  )
  expect(named.filter(({ table }) => tables.has(table))).toEqual([])
})

test('each table belongs to a wing', () => {
  const migrations = join(import.meta.dirname, '../migrations')
  const tables = new Set<string>()
  for (const name of globSync('0*.sql', { cwd: migrations }).sort()) {
    const text = readFileSync(join(migrations, name), 'utf8')
    const changes = /^\s*create table (\w+)|drop table (?:if exists )?([\w, ]+)|alter table (\w+) rename to (\w+)/gm
    for (const [, made, dropped, from, to] of text.matchAll(changes)) {
      for (const table of [...(dropped?.split(', ') ?? []), from]) if (table) tables.delete(table)
      for (const table of [made, to]) if (table) tables.add(table)
    }
  }
  expect(Object.values(tablesOf).flat().sort()).toEqual([...tables].sort())
})

test('a name is exported once, except by an operation, its function and its tool', () => {
  const exported = files.flatMap((file) =>
    [...textOf(file).matchAll(/^export (?:async )?(?:const|function|class|interface|type|let) (\w+)/gm)].map(
      ([, name = '']) => ({ file, name }),
    ),
  )
  const places = Map.groupBy(exported, ({ name }) => name)
  const isOperation = (found: { file: string }[]) =>
    found.some(({ file }) => file.endsWith('/contract.ts')) || found.every(({ file }) => file.endsWith('/tools.ts'))
  const repeated = [...places].flatMap(([name, found]) => {
    const where = [...new Set(found.map(({ file }) => file))]
    return where.length === 1 || isOperation(found) ? [] : [`${name}: ${where.join(', ')}`]
  })
  expect(repeated).toEqual([])
})

test('every decision says when it was accepted', () => {
  const decisions = join(import.meta.dirname, '../../docs/decisions')
  const isDated = (name: string) =>
    /^# .+\n\n(Accepted|Superseded by \[.+\]\(.+\),) \d{4}-\d\d-\d\d\b/.test(
      readFileSync(join(decisions, name), 'utf8'),
    )
  expect(readdirSync(decisions).filter((name) => !isDated(name))).toEqual([])
})
