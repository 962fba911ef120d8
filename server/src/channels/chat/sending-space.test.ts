import { expect, test } from 'vitest'
import { portionLength } from '../../agent/feeds/portions.ts'
import { Outbox } from './outbox.ts'
import { SendingSpace } from './sending-space.ts'

/** As long as a run with 640 results of 16 000 characters. */
const longest = 80 * portionLength

/** Takes room for such runs until there is none. Returns how many there were, and a function that frees them. */
function fill(space: SendingSpace, organizationId: string, isVisitor = false) {
  const taken: (() => void)[] = []
  const take = () => space.take({ organizationId, isVisitor }, longest)
  for (let place = take(); place; place = take()) taken.push(place)
  const free = () => {
    for (const each of taken) each()
  }
  return { count: taken.length, free }
}

test('an organization, and its visitors, have a share of the memory for long runs, and get it back', () => {
  const space = new SendingSpace()
  const visitors = fill(space, 'one', true)
  expect(visitors.count).toBe(3)
  const users = fill(space, 'one')
  expect(users.count, 'users have what visitors can’t take').toBe(3)
  expect(fill(space, 'two').count).toBe(6)
  visitors.free()
  users.free()
  expect(fill(space, 'one').count).toBe(6)
})

test('a client gets one consignment after the other, and nothing of one that it no longer wants', async () => {
  const sent: string[] = []
  const taken: ((isOpen: boolean) => void)[] = []
  const outbox = new Outbox({
    deliver({ type }) {
      sent.push(type)
      return new Promise((resolve) => taken.push(resolve))
    },
  })
  const take = async () => {
    await new Promise(setImmediate)
    taken.shift()?.(true)
    await new Promise(setImmediate)
  }
  let isOver = false
  const message = (type: 'pong' | 'chat/done') => ({ type, request_id: 'r' }) as const
  const first = outbox.send({ messages: [message('pong'), message('pong'), message('pong')], isOver: () => isOver })
  const second = outbox.send({ messages: [message('chat/done')] })
  expect(outbox.isEmpty).toBe(false)
  await take()
  expect(sent).toEqual(['pong', 'pong'])
  isOver = true
  await take()
  await first
  expect(sent).toEqual(['pong', 'pong', 'chat/done'])
  await take()
  await second
  expect(outbox.isEmpty).toBe(true)
})
