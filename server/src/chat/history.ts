import type { ClientMessage, ServerMessage } from '@inlay/protocol'
import type { Service } from '../foundation/service.ts'
import { describeStory } from '../run-feeds/chunks.ts'
import { type RunStory, selectStories } from '../runs/rows.ts'
import type { RunStatus } from '../runs/run.ts'
import type { Speaker } from '../runs/runs.ts'
import { requireThread } from '../runs/speakers.ts'
import type { Sql } from '../stores/database.ts'
import { saveFeedback } from '../threads/feedback.ts'

type Asked<Type extends ClientMessage['type']> = Extract<ClientMessage, { type: Type }>
type Told<Type extends ServerMessage['type']> = Omit<Extract<ServerMessage, { type: Type }>, 'type' | 'request_id'>
type Message = Told<'chat/message-list'>['messages'][number]

const threadsPerPage = 30
/** Runs, each with the messages that it answers. */
const runsPerPage = 20

/** The speaker's own threads. */
export async function listThreads(
  { database }: Service,
  { holder, visitor, is_own_frame }: Speaker,
  { offset }: Asked<'chat/threads'>,
): Promise<Told<'chat/thread-list'>> {
  const endUserId = holder.end_user?.id ?? null
  const threads = await database.asOrg(
    holder.organization_id,
    (sql) => sql<{ id: string; title: string | null; status: RunStatus | null; last_message_at: string | null }>`
      select id, coalesce(title, first_words) as title, last_message_at,
             (select status from runs where thread_id = threads.id and replaced_at is null
              order by position desc limit 1) as status
      from threads
      where threads.status = 'regular' and (${is_own_frame} or origin is not distinct from ${holder.origin ?? null})
        and case when ${endUserId}::uuid is not null then end_user_id = ${endUserId}
            else end_user_id is null and visitor_fingerprint = ${visitor ?? null} and visitor_expires_at > now() end
      order by coalesce(last_message_at, created_at) desc, id desc limit ${threadsPerPage + 1} offset ${offset}`,
  )
  return { threads: threads.slice(0, threadsPerPage), has_more: threads.length > threadsPerPage }
}

/** A page of a thread's messages, from the end. */
export async function readMessages(
  { database }: Service,
  speaker: Speaker,
  { thread_id, before }: Asked<'chat/messages'>,
): Promise<Told<'chat/message-list'>> {
  const { stories, ratings } = await database.asOrg(speaker.holder.organization_id, async (sql) => {
    await requireThread(sql, speaker, thread_id)
    const stories = await selectStories(sql, thread_id, { before: before ?? null, limit: runsPerPage + 1 })
    const ids = stories.map(({ run }) => run.id)
    const ratings = await sql<{ run_id: string; rating: 'up' | 'down' }>`
      select run_id, rating from feedback where run_id = any(${ids}::uuid[])`
    return { stories, ratings: new Map(ratings.map(({ run_id, rating }) => [run_id, rating])) }
  })
  const page = stories.slice(-runsPerPage)
  const messages = page.flatMap((story) => describeMessages(story, ratings.get(story.run.id) ?? null))
  return { thread_id, messages, before: stories.length > runsPerPage ? (page[0]?.run.position ?? null) : null }
}

/** Messages that entered during the run are among its chunks. */
function describeMessages(story: RunStory, feedback: 'up' | 'down' | null): Message[] {
  const { run, messages } = story
  const asked = messages
    .filter(({ step }) => step === 1 || step === null)
    .map(({ id, created_at, text, skill }) => ({ role: 'user' as const, id, created_at, text, skill }))
  const { id, created_at, status, error } = run
  const chunks = describeStory(story)
  return [...asked, { role: 'assistant', id, created_at, status, error, chunks, feedback }]
}

export const rateMessage = (
  { database }: Service,
  { holder, visitor }: Speaker,
  { message_id, rating, comment }: Asked<'chat/feedback'>,
): Promise<void> =>
  database.asOrg(holder.organization_id, (sql: Sql) =>
    saveFeedback(sql, {
      runId: message_id,
      endUserId: holder.end_user?.id ?? null,
      visitor: visitor ?? null,
      rating,
      comment: comment || null,
    }),
  )
