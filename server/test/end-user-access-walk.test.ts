import { expect, onTestFinished, test } from 'vitest'
import { accessTables, cellsOf, type endUserEnds, type endUserWays, titleOf } from './access-matrix.ts'
import { openPage } from './page.ts'
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

interface Admission {
  userId: string
  /** Opens the page, or begins the session. Fails with 401 if the ticket is no longer valid. */
  begin(): Promise<{ ended(): Promise<void> }>
}

const openWith = (shop: Shop, ticket: string, options: { origin?: string } = {}) => ({
  async begin() {
    const page = await openPage(shop.local, ticket, options)
    return { ended: async () => expect(await page.closed).toMatchObject({ code: 4403 }) }
  },
})

/** Each has the address in the directory, and is admitted as often as asked. */
const arrivals: Record<Way, (place: Place) => Promise<() => Promise<Admission>>> = {
  async 'a widget ID token'({ shop }) {
    return async () => {
      const { ticket, userId } = await shop.exchange(member)
      return { userId, ...openWith(shop, ticket) }
    }
  },
  async 'an ID token over AG-UI'({ shop }) {
    const send = async (token: string) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      return (await fetch(`${shop.local}/ag-ui`, { method: 'POST', headers, body: '{}' })).status
    }
    return async () => {
      const { ticket, userId } = await shop.exchange(member)
      return {
        userId,
        async begin() {
          const { status, body } = await shop.request('POST', '/agent/session', { body: { ticket } })
          if (status !== 200) throw new Error(`${status}`)
          expect(await send(body.token), 'an empty request is refused for what it lacks').toBe(400)
          return { ended: async () => expect(await send(body.token)).toBe(401) }
        },
      }
    }
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
      return { userId: preview.end_user_id, ...openWith(shop, body.ticket, { origin }) }
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

const table = accessTables.endUsers

for (const [way, end] of cellsOf(table)) {
  test(titleOf(table.who, way, end), async () => {
    const shop = await startShop()
    onTestFinished(() => shop.close())
    const directory = await connectDirectory(shop)
    const admin = await shop.tokenFor('admin@demo.test', 'demo')
    const place: Place = { shop, admin, directory, directoryUser: await directory.addUser(email) }
    const enter = await arrivals[way as Way](place)
    const { userId, begin } = await enter()
    const begun = await begin()
    const unused = await enter()

    await ends[end as End](place, userId)

    // After a change of the provider, open pages are asked for a new ticket.
    const isAgUi = way === 'an ID token over AG-UI'
    if (isAgUi || end !== 'a change of the identity provider') await begun.ended()
    await expect(unused.begin(), 'a ticket from before').rejects.toThrow('401')
    // After an erasure, the provider or the membership still admits them, as someone new.
    if (end === 'erasure') expect((await enter()).userId).not.toBe(userId)
    else
      expect(
        await enter().then(
          (next) => next.userId,
          () => undefined,
        ),
        'a new ticket',
      ).toBeUndefined()
  })
}
