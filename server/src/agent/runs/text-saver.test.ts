import { expect, onTestFinished, test, vi } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { endSteps, selectStories } from './rows.ts'
import { createTextSaver, type GrowingText } from './text-saver.ts'

const unsaved = { savedLength: 0, mayBeSaved: false }

test('a text is saved while its run is held, and only another node’s epoch counts as a loss', async () => {
  const { service, organization } = await useTestService()
  const demo = await organization('demo')
  const runs = { growing: newId(), finished: newId(), taken: newId() }
  await service.database.asOrg(demo, async (sql) => {
    for (const [kind, id] of Object.entries(runs)) {
      const thread = newId()
      await sql`insert into threads (organization_id, id) values (current_organization(), ${thread})`
      await sql`
        insert into runs (organization_id, id, thread_id, position, status, epoch, holder)
        values (current_organization(), ${id}, ${thread}, 1, 'running', ${kind === 'taken' ? 2 : 1}, '{}')`
      await sql`
        insert into steps (organization_id, run_id, step, text, finish_reason)
        values (current_organization(), ${id}, 1, ${kind === 'finished' ? 'Before' : ''}, ${kind === 'finished' ? 'stop' : null})`
    }
  })
  const lost: string[] = []
  vi.useFakeTimers({ toFake: ['setInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const saver = createTextSaver(service)
  for (const [kind, runId] of Object.entries(runs)) {
    saver.grown(demo, { runId, epoch: 1, step: 1, text: 'Before and after', ...unsaved, lost: () => lost.push(kind) })
  }
  await vi.advanceTimersByTimeAsync(3_100)
  await vi.waitFor(() => expect(lost).toEqual(['taken']))
  saver.close()
  const texts = await service.database.asOrg(
    demo,
    (sql) => sql<{ run_id: string; n: number; text: string }>`select run_id, n, text from step_texts`,
  )
  expect(texts).toEqual([{ run_id: runs.growing, n: 0, text: 'Before and after' }])
})

test('a text that keeps growing is saved every three seconds', async () => {
  const { service, organization } = await useTestService()
  const demo = await organization('demo')
  const asOrg = vi.spyOn(service.database, 'asOrg')
  vi.useFakeTimers({ toFake: ['setInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const saver = createTextSaver(service)
  const text = { runId: newId(), epoch: 1, step: 1, text: 'Growing', ...unsaved, lost: () => undefined }
  const savesAfter = async (ms: number) => {
    saver.grown(demo, text)
    await vi.advanceTimersByTimeAsync(ms)
    await Promise.allSettled(asOrg.mock.results.map(({ value }) => value))
    return asOrg.mock.calls.length
  }
  expect(await savesAfter(3_000)).toBe(0)
  expect(await savesAfter(100)).toBe(1)
  expect(await savesAfter(2_900)).toBe(1)
  expect(await savesAfter(100)).toBe(2)
  saver.close()
})

test('each part of a growing text is written once, and characters stay whole', async () => {
  const { service, organization } = await useTestService()
  const demo = await organization('demo')
  const ids = { thread: newId(), run: newId() }
  await service.database.asOrg(demo, async (sql) => {
    await sql`insert into threads (organization_id, id) values (current_organization(), ${ids.thread})`
    await sql`
      insert into runs (organization_id, id, thread_id, position, status, epoch, holder)
      values (current_organization(), ${ids.run}, ${ids.thread}, 1, 'running', 1, '{}')`
    await sql`insert into steps (organization_id, run_id, step) values (current_organization(), ${ids.run}, 1)`
  })
  vi.useFakeTimers({ toFake: ['setInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const saver = createTextSaver(service)
  const whole = 'Tea 🍵 and cake 🍰'
  const text: GrowingText = { runId: ids.run, epoch: 1, step: 1, text: '', ...unsaved, lost: () => undefined }
  saver.grown(demo, text)
  await vi.advanceTimersByTimeAsync(100)
  for (const length of [5, 6, 12, whole.length]) {
    text.text = whole.slice(0, length)
    saver.grown(demo, text)
    await vi.advanceTimersByTimeAsync(3_000)
    await saver.forget(demo, text)
  }
  saver.close()
  const read = async () =>
    service.database.asOrg(demo, (sql) => sql<{ text: string }>`select text from step_texts order by n`)
  const parts = await read()
  expect(parts.map((part) => part.text)).toEqual(['Tea ', '🍵', ' and c', 'ake 🍰'])
  const [story] = await service.database.asOrg(demo, (sql) => selectStories(sql, ids.thread, {}))
  expect(story?.steps).toMatchObject([{ text: whole, finish_reason: null }])
  await service.database.asOrg(demo, (sql) => endSteps(sql, ids.run, 'stopped'))
  expect(await read()).toEqual([])
  const [ended] = await service.database.asOrg(demo, (sql) => selectStories(sql, ids.thread, {}))
  expect(ended?.steps).toMatchObject([{ text: whole, finish_reason: 'stopped' }])
})
