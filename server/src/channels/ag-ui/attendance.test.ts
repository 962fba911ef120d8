import { describe, expect, test, vi } from 'vitest'
import { createLog } from '../../kernel/lib/log.ts'
import { openLocalBus } from '../../kernel/stores/bus.ts'
import { createAttendance } from './attendance.ts'

const log = createLog('silent')
const thread = 'organization:thread'

/** Two nodes on one bus. */
async function startNodes(graceMs: number) {
  const bus = openLocalBus()
  return [await createAttendance({ bus, log }, graceMs), await createAttendance({ bus, log }, graceMs)] as const
}

/** Long enough that nothing happens in a test. */
const never = 1_000_000

describe('a client that disconnects', () => {
  test('is missed after the grace period', async () => {
    const [node] = await startNodes(1)
    node.attach(thread)
    expect(await new Promise((resolve) => node.lose(thread, resolve))).toBe(true)
  })

  test.each([
    ['on the same node', 0],
    ['on another node', 1],
  ] as const)('isn’t missed if it comes back %s', async (_, index) => {
    const nodes = await startNodes(never)
    const over = vi.fn()
    nodes[0].attach(thread)
    nodes[0].lose(thread, over)
    nodes[index].attach('organization:other')
    expect(over).not.toHaveBeenCalled()
    nodes[index].attach(thread)
    expect(over.mock.calls).toEqual([[false]])
  })

  test.each([
    ['on the same node', 0],
    ['on another node', 1],
  ] as const)('isn’t missed while another one shows the thread %s', async (_, index) => {
    const nodes = await startNodes(never)
    const over = vi.fn()
    nodes[index].attach(thread)
    nodes[0].attach(thread)
    nodes[0].lose(thread, over)
    expect(over.mock.calls).toEqual([[false]])
  })

  test('is missed by the last one that leaves', async () => {
    const [one, other] = await startNodes(1)
    one.attach(thread)
    other.attach(thread)
    one.finish(thread)
    expect(await new Promise((resolve) => other.lose(thread, resolve))).toBe(true)
  })

  test('isn’t missed when its node shuts down, before or after', async () => {
    const [node] = await startNodes(never)
    const over = vi.fn()
    node.attach(thread)
    node.attach('organization:other')
    node.lose(thread, over)
    await node.close()
    node.lose('organization:other', over)
    expect(over.mock.calls).toEqual([[false], [false]])
  })

  test('isn’t missed if the wait is cancelled', async () => {
    const [node] = await startNodes(never)
    const over = vi.fn()
    node.attach(thread)
    node.lose(thread, over)()
    node.attach(thread)
    expect(over).not.toHaveBeenCalled()
  })
})

describe('streams are limited', () => {
  const holder = (id?: string, organization_id = 'o') => ({
    organization_id,
    publishable_key_id: 'k',
    origin: undefined,
    site_id: undefined,
    end_user: id ? { id, verified_email: undefined, identity_expires_at: 0, provider: '' } : undefined,
  })
  const refused = expect.objectContaining({ envelope: expect.objectContaining({ code: 'TOO_MANY_STREAMS' }) })

  test.each([
    ['per end user', 10, (_: number) => ['ann', undefined] as const],
    ['per visitor', 10, (_: number) => [undefined, 'v'] as const],
    ['per key, for visitors', 500, (index: number) => [undefined, `v${index}`] as const],
    ['per organization', 1_000, (index: number) => [`user${index}`, undefined] as const],
  ])('%s', async (_, most, who) => {
    const [node] = await startNodes(never)
    const admit = (index: number) => {
      const [user, visitor] = who(index)
      return node.admit(holder(user), visitor, 0)
    }
    const releases = Array.from({ length: most }, (_, index) => admit(index))
    expect(() => admit(most)).toThrow(refused)
    releases[0]?.()
    admit(most)
    expect(() => admit(most + 1)).toThrow(refused)
  })

  test('by the size of their requests', async () => {
    const [node] = await startNodes(never)
    const mebibyte = 1024 * 1024
    const fill = (organization: string, count: number) => {
      for (let index = 0; index < count; index += 1)
        node.admit(holder(`user${index}`, organization), undefined, mebibyte)
    }
    for (let index = 0; index < 32; index += 1) node.admit(holder(undefined, 'one'), `v${index}`, mebibyte)
    expect(() => node.admit(holder(undefined, 'one'), 'another', mebibyte), 'visitors').toThrow(refused)
    fill('one', 32)
    expect(() => node.admit(holder('another', 'one'), undefined, mebibyte), 'an organization').toThrow(refused)
  })
})
