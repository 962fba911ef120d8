import { describe, expect, inject, test, vi } from 'vitest'
import { countPings, startNodes } from './node-processes.ts'
import { offer } from './page.ts'
import { patience } from './processes.ts'

const { redisUrl } = inject('engines')

describe.skipIf(!redisUrl)('two nodes', { timeout: 120_000 }, () => {
  test('drop the pages of a node that is killed, and end each of its calls with one error', async () => {
    const { one, two, page, me } = await startNodes()
    const kept = await page(one)
    const lost = await page(two, { hello: { tab_id: 'tab-2' } })
    await offer(lost, 'add')
    const sources = [kept.ready.session, lost.ready.session]
    await vi.waitFor(async () => expect(await me(one).sources()).toEqual(sources))
    const call = me(one).call('add')
    await lost.next('tool/call')
    const pings = countPings(kept)
    two.signal('SIGKILL')
    await two.finished
    expect((await call).content[0].text).toContain('SOURCE_GONE')
    await vi.waitFor(async () => expect(await me(one).sources()).toEqual([kept.ready.session]), patience)
    expect(pings(), 'in the server’s own time').toBeLessThanOrEqual(1)
  })

  test('cancel the calls of a node that is killed', async () => {
    const { one, two, page, me } = await startNodes()
    const called = await page(one)
    await offer(called, 'add')
    await vi.waitFor(async () => expect(await me(two).sources()).toEqual([called.ready.session]))
    me(two)
      .call('add')
      .catch(() => undefined)
    const { call_id } = await called.next('tool/call')
    two.signal('SIGKILL')
    expect(await called.next('tool/cancel')).toMatchObject({ call_id, reason: 'The caller disconnected' })
  })
})
