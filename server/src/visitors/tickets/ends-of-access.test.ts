import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { createHeldAccess } from './ends-of-access.ts'
import type { TicketHolder } from './signed-tickets.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

function openHeldAccess() {
  const access = createHeldAccess(app.service, async () => true)
  onTestFinished(() => access.close())
  return access
}

function preview(grant: string): TicketHolder {
  return {
    organization_id: newId(),
    publishable_key_id: newId(),
    origin: undefined,
    site_id: undefined,
    end_user: {
      id: newId(),
      verified_email: undefined,
      identity_expires_at: Date.now() + 60_000,
      provider: '',
      previewer: { user_id: newId(), grant_id: grant },
    },
  }
}

function watched() {
  const ends: string[] = []
  return { ends, accessEnded: (why: string) => void ends.push(why) }
}

test('the end of access reaches what the holder holds now, and nothing that was replaced or released', () => {
  const access = openHeldAccess()
  const holder = preview('grant')
  const [arrival, socket, session] = [watched(), watched(), watched()]
  const end = () => app.service.changes.announce(topics.grant('grant'))

  access.hold(holder, arrival)
  end()
  access.hold(holder, socket)
  access.release(holder, arrival)
  end()
  access.hold(holder, session)
  access.release(holder, socket)
  end()
  access.release(holder, session)
  end()
  expect([arrival.ends, socket.ends, session.ends]).toEqual([['member_left'], ['member_left'], ['member_left']])
})

test('pages of a revoked key hear that it was revoked, whichever of its announcements is looked up first', async () => {
  const access = openHeldAccess()
  const organization_id = await app.organization('demo')
  const holder = { ...preview('other'), organization_id }
  const page = { ...watched(), frameJudged: () => void page.ends.push('frame judged') }
  access.hold(holder, page)
  // No key has this ID, as after a revocation.
  app.service.changes.announce(topics.frames(organization_id))
  await vi.waitFor(() => expect(page.ends).not.toEqual([]))
  expect(page.ends[0]).toBe('key_revoked')
})

test('an announcement reads only the holders that it concerns, however many there are', () => {
  const access = openHeldAccess()
  const read = new Set<string>()
  const held = Array.from({ length: 1_000 }, (_, number) => {
    const grant = `grant ${number % 500}`
    const holder = new Proxy(preview(grant), {
      get(target, name, receiver) {
        read.add(grant)
        return Reflect.get(target, name, receiver)
      },
    })
    const one = watched()
    access.hold(holder, { accessEnded: (why) => one.accessEnded(`${why} ${holder.end_user?.previewer?.grant_id}`) })
    return one
  })
  read.clear()
  app.service.changes.announce(topics.grant('grant 7'), topics.key(newId()), topics.user(newId()))
  expect([...read]).toEqual(['grant 7'])
  expect(held.flatMap(({ ends }) => ends)).toEqual(['member_left grant 7', 'member_left grant 7'])
})
