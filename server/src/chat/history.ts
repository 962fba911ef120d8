import type { ClientMessage, ServerMessage } from '@inlay/protocol'
import type { Service } from '../foundation/service.ts'
import { describeStory } from '../run-feeds/chunks.ts'
import { type MessageRow, type RunStory, selectQueued, selectStories } from '../runs/rows.ts'
import type { Speaker } from '../runs/runs.ts'
import { requireThread } from '../runs/speakers.ts'
import type { Sql } from '../stores/database.ts'
import { saveFeedback } from '../threads/feedback.ts'

type Asked<Type extends ClientMessage['type']> = Extract<ClientMessage, { type: Type }>
type Told<Type extends ServerMessage['type']> = Omit<Extract<ServerMessage, { type: Type }>, 'type' | 'request_id'>
type Message = Told<'chat/message-list'>['messages'][number]

/** A page of a thread's messages, from the end. */
export async function readMessages(
  { database }: Service,
  speaker: Speaker,
  { thread_id, before, limit }: Asked<'chat/messages'>,
): Promise<Told<'chat/message-list'>> {
  const { stories, ratings, queued } = await database.asOrg(speaker.holder.organization_id, async (sql) => {
    await requireThread(sql, speaker, thread_id)
    const stories = await selectStories(sql, thread_id, { before, limit: limit + 1 })
    const ids = stories.map(({ run }) => run.id)
    const [ratings, queued] = await Promise.all([
      sql<{ run_id: string; rating: 'up' | 'down' }>`
        select run_id, rating from feedback where run_id = any(${ids}::uuid[])`,
      before === undefined ? selectQueued(sql, thread_id) : [],
    ])
    return { stories, queued, ratings: new Map(ratings.map(({ run_id, rating }) => [run_id, rating])) }
  })
  const page = stories.slice(-limit)
  const messages = page.flatMap((story) => describeMessages(story, ratings.get(story.run.id) ?? null))
  return {
    thread_id,
    messages: [...messages, ...queued.map((message) => describeWritten(message, true))],
    before: stories.length > limit ? (page[0]?.run.position ?? null) : null,
  }
}

/** Messages that entered during the run are among its chunks. */
function describeMessages(story: RunStory, feedback: 'up' | 'down' | null): Message[] {
  const { run, messages } = story
  const asked = messages
    .filter(({ step }) => step === 1 || step === null)
    .map((message) => describeWritten(message, false))
  const { id, created_at, status, error } = run
  const chunks = describeStory(story)
  return [...asked, { role: 'assistant', id, created_at, status, error, chunks, feedback }]
}

const describeWritten = ({ id, created_at, text, skill }: MessageRow, is_queued: boolean): Message => ({
  role: 'user',
  id,
  created_at,
  text,
  skill,
  is_queued,
})

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
