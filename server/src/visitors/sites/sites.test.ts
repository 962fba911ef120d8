import { describe, expect, test } from 'vitest'
import { startThread } from '../../../test/conversation-rows.ts'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { findWrongSums, usageRecord } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordUsage } from '../../plans/usage/record.ts'

interface Site {
  id: string
  origin: string
  name: string
  last_seen_at: string | null
}

/** An organization on the free plan, which includes one site, or on a plan without limits. */
async function useOrganization(slug: 'demo' | 'other') {
  const app = await useTestService()
  const organizationId = await app.organization(slug)
  const token = await app.tokenFor(`admin@${slug}.test`, slug)
  const makeKey = (allowed_origins: string[] = []) =>
    app.request('POST', '/publishable-keys', { token, body: { name: 'Widget', allowed_origins } })
  const setOrigins = (id: string, allowed_origins: string[]) =>
    app.request('PATCH', `/publishable-keys/${id}`, { token, body: { allowed_origins } })
  const setDomains = (allowed_domains: string[]) =>
    app.request('PUT', '/organizations/current/allowed-domains', { token, body: { allowed_domains } })
  const sites = async (): Promise<Site[]> => (await app.request('GET', '/sites', { token })).body
  const origins = async () => (await sites()).map(({ origin }) => origin).sort()
  const visit = (publishable_key: string, origin: string) =>
    app.request('POST', '/auth/pk-ticket', { body: { publishable_key }, headers: { origin } })
  const use = (site_id: string | null, changes = {}) =>
    recordUsage(app.service, usageRecord(organizationId, { site_id, ...changes }))
  const usage = async () =>
    (await app.request('GET', '/usage/sites?start_date=2026-03-01&end_date=2026-03-31', { token })).body.sites
  const remove = (id: string) => app.request('DELETE', `/sites/${id}`, { token })
  return { app, organizationId, token, makeKey, setOrigins, setDomains, sites, origins, visit, use, usage, remove }
}

const siteOf = async (app: TestService, ticket: string) => (await app.service.tickets.redeem(ticket))?.site_id

const full = { status: 403, body: { code: 'PAYMENT_REQUIRED', message: 'Your plan includes 1 site, and it’s in use' } }

describe('a site', () => {
  test('exists once for each origin that an administrator allows, on a key or in the organization’s domains', async () => {
    const { makeKey, setDomains, sites } = await useOrganization('demo')
    await makeKey(['https://shop.example', 'https://*.preview.example'])
    await makeKey(['https://shop.example'])
    await setDomains(['https://shop.example', 'https://help.example'])
    expect((await sites()).map(({ origin, name, last_seen_at }) => [origin, name, last_seen_at])).toEqual([
      ['https://*.preview.example', '*.preview.example', null],
      ['https://shop.example', 'shop.example', null],
      ['https://help.example', 'help.example', null],
    ])
  })

  test('is not created by requests, so visitors cannot use up the plan', async () => {
    const { app, makeKey, visit, origins, setDomains } = await useOrganization('other')
    const { key } = (await makeKey()).body
    for (let n = 0; n < 30; n += 1) {
      const { status, body } = await visit(key, `https://stranger-${n}.example`)
      expect(status).toBe(200)
      expect(await siteOf(app, body.ticket)).toBeUndefined()
    }
    expect(await origins()).toEqual([])
    expect((await setDomains(['https://shop.example'])).status).toBe(200)
  })

  test('counts towards the plan when it is allowed, not when it is visited', async () => {
    const { makeKey, setOrigins, setDomains, visit, origins } = await useOrganization('other')
    const { id, key } = (await makeKey(['https://*.shop.example'])).body
    for (const host of ['a', 'b', 'c']) expect((await visit(key, `https://${host}.shop.example`)).status).toBe(200)
    expect(await makeKey(['https://two.example'])).toMatchObject(full)
    expect(await setOrigins(id, ['https://*.shop.example', 'https://two.example'])).toMatchObject(full)
    expect(await setDomains(['https://two.example'])).toMatchObject(full)
    expect(await origins(), 'a rejected change has no effect').toEqual(['https://*.shop.example'])
    expect((await setDomains(['https://*.shop.example'])).status, 'the same site again').toBe(200)
    await setDomains([])
    expect((await setOrigins(id, ['https://two.example'])).status, 'replacing the other').toBe(200)
    expect(await origins()).toEqual(['https://two.example'])
  })

  test('is added only within the plan’s limit, even if 20 are allowed concurrently', async () => {
    const { makeKey, origins } = await useOrganization('other')
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => makeKey([`https://s${n}.example`])))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(await origins()).toHaveLength(1)
  })

  test('of a request is its exact origin, or else the wildcard that covers it', async () => {
    const { app, makeKey, visit, sites } = await useOrganization('demo')
    const { key } = (await makeKey(['https://*.shop.example', 'https://de.shop.example'])).body
    const idOf = async (origin: string) => (await sites()).find((site) => site.origin === origin)?.id
    const visited = async (origin: string) => siteOf(app, (await visit(key, origin)).body.ticket)
    expect(await visited('https://de.shop.example')).toBe(await idOf('https://de.shop.example'))
    expect(await visited('https://fr.shop.example')).toBe(await idOf('https://*.shop.example'))
    await app.service.activity.flush()
    expect((await sites()).map(({ last_seen_at }) => last_seen_at)).toEqual([expect.any(String), expect.any(String)])
  })

  test('that is no longer allowed is deleted at once, or, if it has usage or threads, kept without counting', async () => {
    const { makeKey, setOrigins, sites, origins, use } = await useOrganization('other')
    const { id } = (await makeKey(['https://one.example'])).body
    await setOrigins(id, ['https://two.example'])
    expect(await origins()).toEqual(['https://two.example'])
    const [two] = await sites()
    await use(two?.id ?? '')
    expect((await setOrigins(id, ['https://three.example'])).status).toBe(200)
    expect(await origins()).toEqual(['https://three.example', 'https://two.example'])
    await setOrigins(id, ['https://two.example'])
    expect(await sites(), 'it is the same site when it is allowed again').toMatchObject([
      { id: two?.id, origin: two?.origin },
    ])
  })

  test('is no longer allowed after its key is revoked', async () => {
    const { app, token, makeKey, origins } = await useOrganization('other')
    const { id } = (await makeKey(['https://one.example'])).body
    await app.request('DELETE', `/publishable-keys/${id}`, { token })
    expect(await origins()).toEqual([])
    expect((await makeKey(['https://two.example'])).status).toBe(200)
  })
})

describe('an organization has one site', () => {
  test.each<[string, { keys: string[][]; domains?: string[] }, boolean]>([
    ['with one origin', { keys: [['https://shop.example']] }, true],
    ['with the same origin on two keys', { keys: [['https://shop.example'], ['https://shop.example']] }, true],
    ['with its domain for all keys', { keys: [[]], domains: ['https://shop.example'] }, true],
    ['not with two origins', { keys: [['https://shop.example'], ['https://crm.example']] }, false],
    ['not with a wildcard', { keys: [['https://*.shop.example']] }, false],
    ['not with a key for any origin', { keys: [['https://shop.example'], []] }, false],
    ['not without an origin', { keys: [[]] }, false],
  ])('%s', async (_, { keys, domains = [] }, expected) => {
    const { app, organizationId, makeKey, setDomains } = await useOrganization('demo')
    expect((await setDomains(domains)).status).toBe(200)
    for (const origins of keys) expect((await makeKey(origins)).status).toBe(200)
    const [answer] = await app.service.database.asOrg(organizationId, (sql) => sql`select has_one_site()`)
    expect(answer).toEqual({ has_one_site: expected })
  })
})

describe('deleting a site', () => {
  async function useDiscontinued() {
    const organization = await useOrganization('demo')
    const { id } = (await organization.makeKey(['https://old.example'])).body
    const [site] = await organization.sites()
    await organization.use(site?.id ?? '', { prompt_tokens: 100 })
    await organization.use(null)
    return { ...organization, keyId: id as string, siteId: site?.id ?? '' }
  }

  test('keeps all its usage and threads without a site, and writes an audit row', async () => {
    const { app, organizationId, token, keyId, siteId, setOrigins, sites, remove, use, usage } = await useDiscontinued()
    await use(siteId, { created_at: '2026-03-20T00:00:00.000Z' })
    const threadId = await app.service.database.asOrg(organizationId, (sql) =>
      startThread(sql, { endUserId: null, siteId }),
    )
    await setOrigins(keyId, [])
    expect(await remove(siteId)).toMatchObject({ status: 200, body: { success: true } })
    expect(await sites()).toEqual([])
    expect(await usage()).toEqual([
      {
        site_id: null,
        origin: null,
        total_requests: 3,
        total_prompt_tokens: 120,
        total_completion_tokens: 15,
        total_tokens: 135,
        total_cost_micro_usd: 120,
      },
    ])
    expect(await findWrongSums(app, organizationId)).toEqual([])
    expect((await app.request('GET', `/threads/${threadId}`, { token })).body.site_id).toBeNull()
    const { events } = (await app.request('GET', '/audit-events?action=site.deleted', { token })).body
    expect(events).toMatchObject([
      { actor: 'admin@demo.test', target: siteId, data: { origin: 'https://old.example' } },
    ])
    expect((await remove(siteId)).status).toBe(404)
  })

  test('fails while its origin is allowed, and the message says where', async () => {
    const { keyId, siteId, remove, setOrigins, setDomains, usage } = await useDiscontinued()
    const refusal = (where: RegExp) => ({
      status: 409,
      body: { code: 'CONFLICT', message: expect.stringMatching(where), data: { code: 'SITE_STILL_ALLOWED' } },
    })
    expect(await remove(siteId)).toMatchObject(refusal(/the key “Widget” \(pk_test_\w{4}…\)/))
    await setDomains(['https://old.example'])
    await setOrigins(keyId, [])
    expect(await remove(siteId)).toMatchObject(refusal(/the organization’s allowed domains/))
    expect(await usage()).toHaveLength(2)
  })

  test('neither loses nor duplicates usage that is recorded meanwhile', async () => {
    const { app, organizationId, keyId, siteId, setOrigins, remove, usage } = await useDiscontinued()
    await setOrigins(keyId, [])
    const days = ['2026-03-10', '2026-03-11', '2026-03-12']
    const record = (n: number) =>
      recordUsage(
        app.service,
        days.flatMap((day) =>
          [siteId, null].map((site_id) =>
            usageRecord(organizationId, { site_id, created_at: `${day}T0${n % 10}:00:00.000Z`, prompt_tokens: n }),
          ),
        ),
      )
    const writing = Array.from({ length: 40 }, (_, n) => record(n))
    const [removed] = await Promise.all([remove(siteId), ...writing])
    expect(removed.status).toBe(200)
    await record(0)
    expect(await findWrongSums(app, organizationId)).toEqual([])
    expect(await usage()).toMatchObject([{ site_id: null, total_requests: 2 + 41 * 6 }])
  })

  test('of another organization returns a 404', async () => {
    const { app, siteId, keyId, setOrigins, usage } = await useDiscontinued()
    await setOrigins(keyId, [])
    const token = await app.tokenFor('admin@other.test', 'other')
    const foreign = await app.request('DELETE', `/sites/${siteId}`, { token })
    const unknown = await app.request('DELETE', `/sites/${newId()}`, { token })
    expect(foreign.status).toBe(404)
    expect({ ...foreign.body, data: null }).toEqual({ ...unknown.body, data: null })
    expect(await usage()).toHaveLength(2)
  })
})
