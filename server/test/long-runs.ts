import { randomUUID } from 'node:crypto'
import type { HttpService } from './http-server.ts'
import { pageOrigin } from './page.ts'

/** A run that has ended, with the same calls in each step. */
export interface LongRun {
  steps: number
  calls: number
  resultLength: number
  argumentsLength?: number
  textLength?: number
}

/** Adds a thread with these runs to what an end user of the demo organization has. Returns its ID. */
export async function addLongRuns(
  app: Pick<HttpService, 'service' | 'organization'>,
  {
    sub,
    origin = pageOrigin,
    frameKey,
    runs,
  }: { sub: string | undefined; origin?: string; frameKey?: string; runs: readonly LongRun[] },
): Promise<string> {
  const thread = randomUUID()
  await app.service.database.asOrg(await app.organization('demo'), async (sql) => {
    await sql`
      insert into threads (organization_id, id, end_user_id, origin, frame_key, first_words, last_position,
        message_count, last_message_at)
      select organization_id, ${thread}, id, ${origin}, ${frameKey ?? null}, 'A long conversation',
             ${runs.length * 2}::int, ${runs.length * 2}::int, now()
      from end_users where external_id = ${sub ?? null}`
    for (const [index, { steps, calls, resultLength, argumentsLength = 0, textLength = 10 }] of runs.entries()) {
      const run = randomUUID()
      await sql`
        insert into runs (organization_id, id, thread_id, position, status, holder, ended_at)
        values (current_organization(), ${run}, ${thread}, ${index * 2 + 2}, 'succeeded', '{}', now())`
      await sql`
        insert into messages (organization_id, id, thread_id, position, text, run_id, step)
        values (current_organization(), ${randomUUID()}, ${thread}, ${index * 2 + 1}, ${`Question ${index}`}, ${run}, 1)`
      await sql`
        insert into steps (organization_id, run_id, step, text, finish_reason)
        select current_organization(), ${run}, n, repeat('y', ${textLength}::int), 'tool-calls'
        from generate_series(1, ${steps}::int) n`
      await sql`
        insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, args, state, result,
                                decision, dispatched_at, ended_at)
        select current_organization(), gen_random_uuid(), ${run}, step, position, 'read', 'call',
               jsonb_build_object('of', repeat('z', ${argumentsLength}::int)), 'succeeded',
               repeat('x', ${resultLength}::int), 'not_needed', now(), now()
        from generate_series(1, ${steps}::int) step, generate_series(0, ${calls - 1}::int) position`
    }
  })
  return thread
}
