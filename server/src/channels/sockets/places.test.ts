import { describe, expect, test } from 'vitest'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import { maxSockets, maxTabs, Places } from './places.ts'

const holder = (fields: { user?: string; key?: string; organization?: string } = {}): TicketHolder => ({
  organization_id: fields.organization ?? 'organization-1',
  publishable_key_id: fields.key ?? 'key-1',
  origin: undefined,
  site_id: undefined,
  end_user: fields.user
    ? { id: fields.user, verified_email: undefined, identity_expires_at: 0, provider: '' }
    : undefined,
})

function fill(count: number, next: (n: number) => TicketHolder) {
  const places = new Places('tabs')
  for (let n = 1; n < count; n += 1) places.take(next(n))
  expect(places.findFull(next(0)), 'the last one fits').toBeUndefined()
  places.take(next(0))
  return places
}

describe('a node accepts', () => {
  test('50 tabs per end user', () => {
    const places = fill(50, () => holder({ user: 'ann' }))
    expect(places.findFull(holder({ user: 'ann' }))).toBe('This user already has 50 tabs open on this server')
    expect(places.findFull(holder({ user: 'bob' }))).toBeUndefined()
    places.free(holder({ user: 'ann' }))
    expect(places.findFull(holder({ user: 'ann' }))).toBeUndefined()
  })

  test('20 000 visitors per key, with room left for end users and other keys', () => {
    const places = fill(20_000, () => holder())
    expect(places.findFull(holder())).toBe('Visitors with this key already have 20000 tabs open on this server')
    expect(places.findFull(holder({ user: 'ann' }))).toBeUndefined()
    expect(places.findFull(holder({ key: 'key-2' }))).toBeUndefined()
  })

  test('30 000 tabs per organization, with room left for other organizations', () => {
    const places = fill(30_000, (n) => holder({ key: `key-${n % 2}` }))
    const full = 'This organization already has 30000 tabs open on this server'
    expect(places.findFull(holder({ user: 'ann' }))).toBe(full)
    expect(places.findFull(holder({ organization: 'organization-2' }))).toBeUndefined()
  })

  test('50 000 tabs in total', () => {
    const places = fill(50_000, (n) => holder({ key: `key-${n % 5}`, organization: `organization-${n % 5}` }))
    const stranger = holder({ organization: 'organization-9', user: 'ann' })
    expect(places.findFull(stranger)).toBe('This Inlay server already has 50000 tabs open')
  })

  test('two sockets per tab, for reconnects', () => {
    for (const limit of Object.keys(maxTabs) as (keyof typeof maxTabs)[])
      expect(maxSockets[limit]).toBeGreaterThanOrEqual(2 * maxTabs[limit])
  })
})
