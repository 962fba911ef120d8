import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, inject, onTestFinished, test } from 'vitest'
import { newId } from '../../kernel/lib/ids.ts'
import { createSecrets } from '../../kernel/lib/secrets.ts'
import { type Kv, openFileKv } from '../../kernel/stores/kv.ts'
import { openRedisKv } from '../../kernel/stores/redis.ts'
import { createTickets, type TicketHolder, type Tickets } from './signed-tickets.ts'

const [secret, newerSecret] = ['a-secret-0123456789-abcdefghijklmnopq', 'newer-secret-0123456789-abcdefghijklm']
const times = <T>(count: number, make: (index: number) => T) => Array.from({ length: count }, (_, index) => make(index))
const holder: TicketHolder = {
  organization_id: newId(),
  publishable_key_id: newId(),
  origin: 'https://shop.example.com',
  site_id: undefined,
  end_user: { id: newId(), verified_email: 'ann@example.com', identity_expires_at: 1, provider: 'x' },
}
const anonymous: TicketHolder = { ...holder, end_user: undefined }
const { site_id, ...redeemed } = holder

/** Nodes that share one store, each with its own connection. */
function useNodes() {
  const { redisUrl } = inject('engines')
  const folder = mkdtempSync(join(tmpdir(), 'inlay-tickets-'))
  const prefix = newId()
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const clock = { now: Date.parse('2026-11-15T10:30:00Z') }
  return {
    clock,
    startNode(secrets = [secret]): Tickets & { kv: Kv } {
      const options = { secrets: createSecrets(secrets), clock: () => clock.now }
      const kv = redisUrl ? openRedisKv(redisUrl, prefix, options) : openFileKv(join(folder, 'kv.db'), options)
      onTestFinished(() => kv.close())
      return { kv, ...createTickets({ ...options, kv }) }
    },
  }
}

test('a ticket can be redeemed for its holder for one minute', async () => {
  const { clock, startNode } = useNodes()
  const node = startNode()
  const { ticket, expiresAt } = node.issue(holder)
  expect(ticket).toMatch(/^[\w.-]+$/)
  expect(ticket.length).toBeLessThan(700)
  expect(expiresAt).toBe(clock.now + 60_000)
  clock.now = expiresAt - 1
  expect(await node.redeem(ticket)).toEqual(redeemed)
  const late = node.issue(holder)
  clock.now = late.expiresAt
  expect(await node.redeem(late.ticket)).toBeUndefined()
})

test('a ticket is redeemed by exactly one of 50 concurrent callers on two nodes', async () => {
  const { startNode } = useNodes()
  const [first, second] = [startNode(), startNode()]
  const { ticket } = first.issue(anonymous)
  const answers = await Promise.all(times(50, (n) => (n % 2 ? first : second).redeem(ticket)))
  expect(answers.filter((answer) => answer !== undefined)).toHaveLength(1)
})

test('a ticket and its use survive a restart', async () => {
  const { startNode } = useNodes()
  const before = startNode()
  const [used, unused] = [before.issue(holder).ticket, before.issue(holder).ticket]
  await before.redeem(used)
  await before.kv.close()
  const after = startNode()
  expect(await after.redeem(used)).toBeUndefined()
  expect(await after.redeem(unused)).toEqual(redeemed)
})

test('rejects a ticket in another encoding', async () => {
  const { startNode } = useNodes()
  const node = startNode()
  const { ticket } = node.issue(anonymous)
  for (const spelling of [`${ticket}=`, `${ticket} `, ticket.replace('.', '.='), `${ticket}.`])
    expect(await node.redeem(spelling), spelling).toBeUndefined()
  expect(await node.redeem(ticket)).toBeDefined()
})

test('rejects a modified ticket, and leaves the original usable', async () => {
  const { startNode } = useNodes()
  const node = startNode()
  const { ticket } = node.issue(holder)
  await fc.assert(
    fc.asyncProperty(fc.nat(ticket.length - 1), fc.constantFrom(...'Az09-_.='), async (index, character) => {
      fc.pre(ticket[index] !== character)
      const changed = ticket.slice(0, index) + character + ticket.slice(index + 1)
      expect(await node.redeem(changed)).toBeUndefined()
    }),
  )
  expect(await node.redeem(ticket)).toEqual(redeemed)
})

test.each([
  ['nothing', ''],
  ['random text', 'x'.repeat(300)],
  ['something short', 'abc'],
  ['something long', 'A'.repeat(1_000_000)],
  ['invalid base64url', '\u0000 ü'.repeat(100)],
])('%s is not a ticket', async (_, text) => {
  expect(await useNodes().startNode().redeem(text)).toBeUndefined()
})

test('rejects a ticket of an installation with another secret', async () => {
  const { startNode } = useNodes()
  const { ticket } = startNode([newerSecret]).issue(anonymous)
  expect(await startNode([secret]).redeem(ticket)).toBeUndefined()
})

test('a ticket can be redeemed while the secret is rotated', async () => {
  const { startNode } = useNodes()
  const [before, during] = [startNode([secret]), startNode([newerSecret, secret])]
  expect(await during.redeem(before.issue(anonymous).ticket)).toBeDefined()
})
