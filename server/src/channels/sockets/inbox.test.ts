import { expect, onTestFinished, test, vi } from 'vitest'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import { Inbox, messageRates } from './inbox.ts'
import { RuntimeSocket } from './socket.ts'

/** An inbox whose messages take 1 ms each, and the order in which they were handled. */
function useInbox(cost = 0) {
  const handled: string[] = []
  let now = 0
  const inbox = new Inbox(
    (_, data) => {
      now += 1
      handled.push(String(data))
      return cost
    },
    () => now,
  )
  const sockets = new Set<RuntimeSocket>()
  // Time doesn't pass by itself, so what a socket owes would be waited for without an end.
  onTestFinished(() => {
    for (const socket of sockets) inbox.closed(socket, () => undefined)
  })
  return {
    inbox,
    handled,
    send(socket: RuntimeSocket, ...texts: string[]) {
      sockets.add(socket)
      for (const text of texts) inbox.receive(socket, Buffer.from(text), false)
    },
    pass(milliseconds: number) {
      now += milliseconds
    },
  }
}

/** A server's socket without a connection. */
function open(organization_id: string, end_user?: string, address = '192.0.2.1'): RuntimeSocket {
  const socket = new RuntimeSocket(null as never, undefined, { autoPong: false })
  const holder = { organization_id, publishable_key_id: organization_id, end_user: end_user && { id: end_user } }
  socket.opened = {
    holder: holder as TicketHolder,
    address,
    at: 0,
    saidHello: true,
    isFromOurOrigin: false,
    frame: undefined,
  }
  return socket
}

const letters = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`)
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

test('handles few messages of one turn at once', () => {
  const { send, handled } = useInbox()
  send(open('a', 'user'), '1', '2', '3')
  expect(handled).toEqual(['1', '2', '3'])
})

test('leaves the rest of many messages to later turns, in order, so that other work has its turn', async () => {
  const { send, handled } = useInbox()
  send(open('a', 'user'), ...letters('', 20))
  const seen = [handled.length]
  while (handled.length < 20) {
    await nextTurn()
    seen.push(handled.length)
  }
  expect(seen).toEqual([4, 8, 12, 16, 20])
  expect(handled).toEqual(letters('', 20))
})

test('doesn’t read a socket further while messages of it wait', async () => {
  const { send, handled } = useInbox()
  const socket = open('a', 'user')
  const [pause, resume] = [vi.spyOn(socket, 'pause'), vi.spyOn(socket, 'resume')]
  const calls = () => [pause.mock.calls.length, resume.mock.calls.length]
  send(socket, ...letters('', 4))
  expect(calls()).toEqual([0, 0])
  send(socket, ...letters('', 6))
  expect(calls()).toEqual([1, 0])
  while (handled.length < 10) {
    expect(calls()).toEqual([1, 0])
    await nextTurn()
  }
  expect(calls()).toEqual([1, 1])
})

test('lets organizations and their visitors take turns, however many sockets one of them has', async () => {
  const { send, handled } = useInbox()
  const flood = Array.from({ length: 10 }, (_, n) => open('a', undefined, `192.0.2.${n}`))
  for (const [n, socket] of flood.entries()) send(socket, ...letters(`flood-${n}-`, 20))
  send(open('a', 'user'), 'user')
  send(open('b'), 'other organization')
  while (handled.length < 202) await nextTurn()
  expect(handled.indexOf('user')).toBeLessThan(8)
  expect(handled.indexOf('other organization')).toBeLessThan(8)
})

test.each([
  ['a socket', messageRates.socket.atOnce, 1, 'user'],
  ['visitors at an address', messageRates.address.atOnce, 40, undefined],
])('reads %s more slowly that sends too much, and loses nothing', async (_, most, sockets, user) => {
  const cost = 50
  const { send, handled, pass } = useInbox(cost)
  const all = Array.from({ length: sockets }, () => open('a', user))
  const count = Math.ceil(most / cost / sockets) + 40
  for (const socket of all) send(socket, ...letters('', count))
  for (let before = -1; before !== handled.length; ) {
    before = handled.length
    await nextTurn()
  }
  expect(handled.length).toBeGreaterThanOrEqual(Math.floor(most / cost))
  expect(handled.length).toBeLessThan(sockets * count)
  const other = open('b', 'user')
  send(other, 'other')
  await nextTurn()
  expect(handled).toContain('other')
  const passed = () => {
    pass(100_000)
    return handled.length
  }
  await expect.poll(passed, { timeout: 60_000 }).toBe(sockets * count + 1)
})

test('reads visitors at one address at once while others use up what their key has', async () => {
  const cost = 1_000
  const { send, handled, pass } = useInbox(cost)
  const { address, key } = messageRates
  for (let n = 0; n < 1.2 * (key.atOnce / address.atOnce); n += 1) {
    for (let sent = 0; sent < address.atOnce; sent += cost) send(open('a', undefined, `192.0.2.${n}`), 'greedy')
  }
  for (let before = -1; before !== handled.length; ) {
    before = handled.length
    await nextTurn()
  }
  send(open('a', undefined, '192.0.2.0'), 'one more')
  send(open('a', undefined, '203.0.113.1'), 'quiet')
  await nextTurn()
  expect(handled).toContain('quiet')
  expect(handled).not.toContain('one more')
  const passed = () => {
    pass(100_000)
    return handled
  }
  await expect.poll(passed, { timeout: 60_000 }).toContain('one more')
})

test('ends a closed socket after what it has sent, unless it has sent too much', async () => {
  const { inbox, send, handled } = useInbox()
  const socket = open('a', 'user')
  send(socket, ...letters('', 6))
  inbox.closed(socket, () => handled.push('closed'))
  while (!handled.includes('closed')) await nextTurn()
  expect(handled).toEqual([...letters('', 6), 'closed'])

  const greedy = useInbox(messageRates.socket.atOnce)
  const other = open('a', 'user')
  greedy.send(other, ...letters('', 6))
  greedy.inbox.closed(other, () => greedy.handled.push('closed'))
  expect(greedy.handled).toEqual(['0', 'closed'])
})
