import { expect, onTestFinished, test, vi } from 'vitest'
import { useTestService } from '../../test/harness.ts'
import { newId } from '../lib/ids.ts'
import { createTextSaver } from './text-saver.ts'

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
        values (current_organization(), ${id}, 1, 'Before', ${kind === 'finished' ? 'stop' : null})`
    }
  })
  const lost: string[] = []
  const saver = createTextSaver(service)
  for (const [kind, runId] of Object.entries(runs)) {
    saver.grown(demo, { runId, epoch: 1, step: 1, text: 'Before and after', lost: () => lost.push(kind) })
  }
  await vi.waitFor(() => expect(lost).toEqual(['taken']))
  saver.close()
  const texts = await service.database.asOrg(
    demo,
    (sql) => sql<{ run_id: string; text: string }>`select run_id, text from steps`,
  )
  expect(Object.fromEntries(texts.map(({ run_id, text }) => [run_id, text]))).toEqual({
    [runs.growing]: 'Before and after',
    [runs.finished]: 'Before',
    [runs.taken]: 'Before',
  })
})

test('a text that keeps growing is saved once a second', async () => {
  const { service, organization } = await useTestService()
  const demo = await organization('demo')
  const asOrg = vi.spyOn(service.database, 'asOrg')
  vi.useFakeTimers({ toFake: ['setInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const saver = createTextSaver(service)
  const text = { runId: newId(), epoch: 1, step: 1, text: 'Growing', lost: () => undefined }
  const savesAfter = async (ms: number) => {
    saver.grown(demo, text)
    vi.advanceTimersByTime(ms)
    await Promise.allSettled(asOrg.mock.results.map(({ value }) => value))
    return asOrg.mock.calls.length
  }
  expect(await savesAfter(100)).toBe(1)
  expect(await savesAfter(900)).toBe(1)
  expect(await savesAfter(100)).toBe(2)
  expect(await savesAfter(900)).toBe(2)
  saver.close()
})
