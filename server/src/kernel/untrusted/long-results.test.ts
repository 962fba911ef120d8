import { expect, test } from 'vitest'
import { addExchange } from '../../../test/conversation-rows.ts'
import { useTestService } from '../../../test/harness.ts'
import { selectStory } from '../../agent/runs/rows.ts'
import { newId } from '../lib/ids.ts'
import { fitResult, shownLength } from './long-results.ts'

const long = 'é'.repeat(1_000_000)

test('the results of a run are limited, each and together, and end with a note', async () => {
  const { service, organization } = await useTestService()
  await service.database.asOrg(await organization('demo'), async (sql) => {
    const [threadId, calls] = [newId(), Array.from({ length: 40 }, () => newId())]
    await sql`insert into threads (organization_id, id) values (current_organization(), ${threadId})`
    const { runId } = await addExchange(sql, threadId, {}, { steps: [{ calls: calls.map((id) => ({ id })) }] })
    expect(await fitResult(sql, runId, 'short')).toBe('short')
    for (const id of calls) {
      await sql`update tool_calls set result = ${await fitResult(sql, runId, long)} where id = ${id}`
    }
    const stored = await sql<{
      result: string
    }>`select result from tool_calls where run_id = ${runId} order by position`
    const lengths = stored.map(({ result }) => result.length)
    expect(lengths[0]).toBe(256 * 1024)
    expect(lengths.at(-1)).toBe(shownLength)
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThan(3_000_000)
    for (const { result } of stored) expect(result).toMatch(/é\n\n\(The result has 1000000 characters\. The rest was/)
  })
})

test('a story has the beginning of long results, and whole results of built-in tools', async () => {
  const { service, organization } = await useTestService()
  await service.database.asOrg(await organization('demo'), async (sql) => {
    const threadId = newId()
    await sql`insert into threads (organization_id, id) values (current_organization(), ${threadId})`
    const skill = { kind: 'built_in' as const, name: 'activate_skill' }
    const calls = [{ result: long }, { result: long, tool: skill }, { result: 'short' }, {}]
    const { runId } = await addExchange(sql, threadId, {}, { steps: [{ calls }] })
    const story = await selectStory(sql, runId)
    expect(story?.calls.map(({ result, result_length }) => [result?.length, result_length])).toEqual([
      [shownLength, long.length],
      [long.length, long.length],
      [5, null],
      [undefined, null],
    ])
  })
})
