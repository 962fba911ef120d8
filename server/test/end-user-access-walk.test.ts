import { expect, onTestFinished, test } from 'vitest'
import { accessTables, cellsOf, type endUserEnds, type endUserWays, titleOf } from './access-matrix.ts'
import { openPage, type Page } from './page.ts'
import { connectDirectory, type ScimClient } from './scim.ts'
import { member, type Shop, startShop } from './shop.ts'

type Way = (typeof endUserWays)[number]
type End = (typeof endUserEnds)[number]

const email = 'member@demo.test'

interface Place {
  shop: Shop
  admin: string
  directory: ScimClient
  directoryUser: string
}

/** Each has the address in the directory, and gets a ticket for the page. */
const arrivals: Record<
  Way,
  (place: Place) => Promise<() => Promise<{ ticket: string; origin?: string; userId: string }>>
> = {
  async 'a widget ID token'({ shop }) {
    return () => shop.exchange(member)
  },
  async 'a preview in the dashboard'({ shop }) {
    const token = await shop.tokenFor(email, 'demo')
    const { url: origin } = shop
    return async () => {
      const preview = (await shop.request('POST', `/publishable-keys/${shop.keyId}/preview`, { token })).body
      const { body } = await shop.request('POST', '/auth/pk-ticket', {
        headers: { origin },
        body: { publishable_key: preview.publishable_key, id_token: preview.token, embedding_origin: origin },
      })
      return { ticket: body.ticket, origin, userId: preview.end_user_id }
    }
  },
}

const rename = { userName: 'renamed@demo.test' }
const patch = ({ directory, directoryUser }: Place, value: object) =>
  directory.patch(`/Users/${directoryUser}`, { op: 'replace', value })

const ends: Record<End, (place: Place, userId: string) => Promise<unknown>> = {
  'deactivation in the directory': (place) => patch(place, { active: false }),
  'deletion in the directory': ({ directory, directoryUser }) => directory.send('DELETE', `/Users/${directoryUser}`),
  'a rename and deactivation in one request': (place) => patch(place, { ...rename, active: false }),
  async 'a rename and a later deactivation'(place) {
    await patch(place, rename)
    return patch(place, { active: false })
  },
  erasure: ({ shop, admin }, userId) => shop.request('DELETE', `/end-users/${userId}`, { token: admin }),
  'revocation of the key': ({ shop, admin }) =>
    shop.request('DELETE', `/publishable-keys/${shop.keyId}`, { token: admin }),
  'a change of the identity provider': ({ shop, admin }) =>
    shop.request('PATCH', '/identity-providers/config', {
      token: admin,
      body: { idp_issuer: 'https://login.example.com' },
    }),
  async 'the removal of the member who previews'({ shop, admin }) {
    const members = (await shop.request('GET', '/organizations/current/members', { token: admin })).body
    const { id } = members.find(({ user }: { user: { email: string } }) => user.email === email)
    return shop.request('DELETE', `/organizations/current/members/${id}`, { token: admin })
  },
}

const table = accessTables[1] as (typeof accessTables)[number]

for (const [way, end] of cellsOf(table)) {
  test(titleOf(table.who, way, end), async () => {
    const shop = await startShop()
    onTestFinished(() => shop.close())
    const directory = await connectDirectory(shop)
    const admin = await shop.tokenFor('admin@demo.test', 'demo')
    const place: Place = { shop, admin, directory, directoryUser: await directory.addUser(email) }
    const enter = await arrivals[way as Way](place)
    const { ticket, origin, userId } = await enter()
    const page: Page = await openPage(shop.local, ticket, origin ? { origin } : {})
    const unused = (await enter()).ticket

    await ends[end as End](place, userId)

    // After a change of the provider, open pages are asked for a new ticket.
    if (end !== 'a change of the identity provider') expect(await page.closed).toMatchObject({ code: 4403 })
    await expect(openPage(shop.local, unused, origin ? { origin } : {}), 'a ticket from before').rejects.toThrow('401')
    // After an erasure, the provider or the membership still admits them, as someone new.
    if (end === 'erasure') expect((await enter()).userId).not.toBe(userId)
    else
      expect(
        await enter().then(
          ({ ticket: next }) => next,
          () => undefined,
        ),
        'a new ticket',
      ).toBeUndefined()
  })
}
