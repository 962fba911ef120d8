import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { signInPlanCheck } from '../src/accounts/organization-sign-in/ways-in.ts'
import { conversationErasure } from '../src/agent/settings/settings.ts'
import { api } from '../src/api.ts'
import { requestJob } from '../src/kernel/jobs/requests.ts'
import { auditVerification } from '../src/organizations/audit-events/verifier.ts'
import { membershipNotices } from '../src/organizations/directories/notices.ts'
import { invitationExpiry } from '../src/organizations/organizations/invitation-links.ts'
import { budgetExpiry } from '../src/plans/budgets/expiry.ts'
import { usageRanking } from '../src/plans/usage/rankings.ts'
import { contentsExpiry } from '../src/tools/call-records/contents.ts'
import { type AgentShop, allowVisitors, startAgentShop } from './agent-shop.ts'
import { type ChatPage, openChat } from './chat.ts'
import { addOrganizations, grownId, growOrganization, lastOrganization } from './grown-organization.ts'
import { runJob } from './harness.ts'
import { callTool } from './mcp-messages.ts'
import { samples, toolSamples } from './samples.ts'
import { proveDomains, scimClient } from './scim.ts'
import { collectPlans } from './statement-plans.ts'

/** What a statement may read, whatever its organization and the installation have. */
const most = { extraBuffers: 1_000, extraRows: 1_000 }

/** Statements that must read more, by a part of their text. */
const exceptions: [part: string, reason: string][] = [
  ['title ~ all', 'searches in all texts of a thread'],
  ["'avatar_url', u.avatar_url, 'created_at', iso_timestamp(u.created_at)", 'lists all members, who are few'],
  ["m.role = 'admin' and m.deactivated_at is null and u.issuer <>", 'reads members, who are few'],
  ['delete from members where deactivated_at is not null and coalesce', 'reads members, who are few'],
  ['(select count(*) from members where', 'counts members and invitations, which are few'],
  ['as user_count, (select count(*) from directory_groups', 'counts the users of a directory, who are few'],
  ['select count(*) as total from directory_users where', 'counts the users of a directory, who are few'],
  [
    "case when u.name = '' then u.user_name else u.name end as display",
    'joins a group with the users of a directory, who are few',
  ],
  ['delete from confirmed_browsers where id = any', 'forgets all browsers when the provider changes, in batches'],
  ['sum((prompt_tokens + completion_tokens)::float8) as tokens', 'ranks end users until their ranking is kept'],
  ['with sums as materialized', 'keeps the ranking of end users, in batches'],
  ['update tool_call_contents set expires_at', 'shortens how long all contents are kept, in batches'],
  ['delete from budget_periods where ctid', 'a batch, of which all rows are due at once here'],
]

let app: AgentShop
let collected: Awaited<ReturnType<typeof collectPlans>> | undefined
beforeAll(async () => {
  app = await startAgentShop()
  const superuser = new pg.Client(inject('engines').superuserUrl.replace('DATABASE', app.stores.owner.database ?? ''))
  await superuser.connect()
  for (const slug of ['demo', 'other'] as const) await growOrganization(superuser, await app.organization(slug))
  await addOrganizations(superuser)
  await superuser.query("update end_users set issuer = $1, external_id = 'busy' where id = $2", [
    app.issuer,
    grownId(1),
  ])
  await superuser.query('vacuum analyze')
  collected = await collectPlans(superuser)
  await superuser.end()
  await vi.waitFor(() => app.service.database.asService((sql) => sql`select 1`))
})
afterAll(async () => {
  collected?.stop()
  await app.close()
})

test('no statement of an operation, a tool, a conversation or a job reads what grows', async () => {
  const begin = (what: string) => collected?.begin(what)
  begin('conversation')
  await converse(openChat(await app.page({ sub: 'busy' }), grownId(1)))
  begin('conversation of a visitor')
  await allowVisitors(app, 'demo')
  await converse(openChat(await app.page(undefined, { hello: { visitor_secret: randomUUID() } })))
  begin('SCIM')
  await provision()
  await callOperations(begin)
  await callTools(begin)
  await runJobs(begin)
  begin('')

  const excessive = [...(collected?.plans.values() ?? [])].filter(
    ({ extraBuffers, extraRows }) => extraBuffers > most.extraBuffers || extraRows > most.extraRows,
  )
  const unexpected = excessive.filter(({ text }) => !exceptions.some(([part]) => text.includes(part)))
  expect.soft(unexpected, 'statements that read too much; add an index or, with a reason, an exception').toEqual([])
  const texts = [...(collected?.plans.keys() ?? [])]
  const needless = exceptions.filter(([part]) => !texts.some((text) => text.includes(part)))
  expect(needless, 'exceptions for statements that there aren’t').toEqual([])
})

type Begin = (what: string) => void

/** The user, of whom one has the most threads and the longest one, lists them, writes, reads and searches. */
async function converse(chat: ChatPage): Promise<void> {
  for (const filter of [{}, { offset: 300 }])
    await chat.request({ type: 'chat/threads', ...filter }, 'chat/thread-list')
  await chat.rest(await chat.say('Hi'), 'succeeded')
  await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
  // The longest thread is now the latest, which is searched first.
  await chat.request({ type: 'chat/threads', query: 'Order 77' }, 'chat/thread-list')
}

/** The directory with most users lists them, finds one, and adds, changes and deletes another and a group. */
async function provision(): Promise<void> {
  const [domain, known] = [`${app.demo}.example`, grownId(7)]
  await proveDomains(app, app.demo, domain)
  const { body } = await app.request('POST', `/directories/${grownId(1)}/token`, { token: app.admin })
  const directory = scimClient(app, grownId(1), body.bearer_token, app.admin)
  const filter = encodeURIComponent('userName eq "person-7"')
  const paths = [
    '/Users?count=20',
    `/Users?filter=${filter}`,
    `/Users/${known}`,
    '/Groups?count=20',
    `/Groups/${known}`,
  ]
  for (const path of paths) expect((await directory.send('GET', path)).status, path).toBe(200)
  const user = await directory.addUser(`new@${domain}`)
  const group = await directory.addGroup('New', [user])
  const answers = [
    await directory.mapGroup(group, 'member'),
    await directory.patch(`/Groups/${known}`, { op: 'add', path: 'members', value: [{ value: user }] }),
    await directory.deactivate(user),
    await directory.send('DELETE', `/Groups/${group}`),
    await directory.send('DELETE', `/Users/${user}`),
  ]
  expect(answers.map(({ status }) => status < 300)).toEqual(answers.map(() => true))
}

async function callOperations(begin: Begin): Promise<void> {
  for (const { operation } of api) {
    const { prepare, undo, token, query, body } = samples[operation.id] ?? {}
    begin(operation.id)
    const params = (await prepare?.(app, 'demo')) ?? {}
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? randomUUID())
    const content = body?.()
    const { status } = await app.request(
      operation.method.toUpperCase(),
      query ? `${path}?${new URLSearchParams(query)}` : path,
      {
        token: await (token?.(app) ?? app.tokenFor('admin@demo.test', 'demo')),
        ...(content !== undefined && { body: content }),
      },
    )
    // Those for everybody have samples that are refused, such as a ticket's.
    if (operation.access !== 'public') expect(status, operation.id).toBe(200)
    await undo?.(app, 'admin@demo.test', 'demo')
  }
}

async function callTools(begin: Begin): Promise<void> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  for (const [name, { valid, fails = false }] of Object.entries(toolSamples)) {
    begin(name)
    for (const args of valid) {
      const { isError } = await callTool(app, token, name, args)
      expect(isError, name).toBe(fails)
    }
  }
}

async function runJobs(begin: Begin): Promise<void> {
  // Ends some conversations of the organization, as on each day.
  await app.service.database.asOrg(
    app.demo,
    (sql) => sql`
      insert into conversation_retention (organization_id, days) values (current_organization(), 89)
      on conflict (organization_id) do update set days = excluded.days`,
  )
  const jobs = {
    [auditVerification]: '',
    [budgetExpiry]: '',
    [contentsExpiry]: '',
    [conversationErasure]: '',
    [invitationExpiry]: '',
    [membershipNotices]: '',
    [signInPlanCheck]: '',
    [usageRanking]: '30',
  }
  for (const [kind, key] of Object.entries(jobs)) {
    begin(`job ${kind}`)
    await runJob(app, app.demo, kind, key)
  }
  begin('next job')
  // Without `runJob`, which doesn't look for jobs.
  await app.service.database.asOrg(lastOrganization, (sql) => requestJob(sql, budgetExpiry))
  await vi.waitFor(async () => {
    const due = await app.service.database.asOrg(
      lastOrganization,
      (sql) => sql`
        select from jobs where organization_id = ${lastOrganization} and kind = ${budgetExpiry} and due_at <= now()`,
    )
    expect(due).toEqual([])
  })
}
