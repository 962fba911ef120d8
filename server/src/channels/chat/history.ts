import type { ClientMessage, ServerMessage } from '@inlay/protocol'
import { type Chunk, describeEnd, describeSteps, describeStory, startChunk } from '../../agent/feeds/chunks.ts'
import { portionsOf } from '../../agent/feeds/portions.ts'
import {
  type MessageRow,
  type RunRow,
  type RunSize,
  type RunStory,
  selectParts,
  selectQueued,
  selectRunSizes,
} from '../../agent/runs/rows.ts'
import type { Speaker } from '../../agent/runs/runs.ts'
import { requireThread } from '../../agent/runs/speakers.ts'
import { saveFeedback } from '../../agent/threads/feedback.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'

type Asked<Type extends ClientMessage['type']> = Extract<ClientMessage, { type: Type }>
type Message = Extract<ServerMessage, { type: 'chat/message-list' }>['messages'][number]

/** About how many bytes of runs a page has at most, and a response has at once. */
const mostBytesPerPage = 512 * 1024
/** However long they are, because clients need as many to see what has changed. */
const leastRunsPerPage = 2

type Read = <Result>(select: (sql: Sql) => Promise<Result>) => Promise<Result>
interface Reading {
  addLinks(chunks: readonly Chunk[]): readonly Chunk[]
  /** Called with the size of the page, in bytes, before it is sent. */
  charge(bytes: number): void
}

/**
 * The response to `chat/messages`: a page of a thread's messages, from the end. The chunks of a long page come before it,
 * in messages of their own, and are only read from the database when it is their turn.
 */
export async function* readMessages(
  { database }: Service,
  speaker: Speaker,
  { request_id, thread_id, before, limit }: Asked<'chat/messages'>,
  { addLinks, charge }: Reading,
): AsyncGenerator<ServerMessage> {
  const read: Read = (select) =>
    database.asHolder(speaker.holder, async (sql) => {
      await requireThread(sql, speaker, thread_id)
      return select(sql)
    })
  const { page, size, isLong, hasEarlier, stories, ratings, queued } = await read(async (sql) => {
    const found = await selectRunSizes(sql, thread_id, { before, limit: limit + 1 })
    const page = chooseRuns(found.slice(0, limit))
    const ids = page.map(({ id }) => id)
    const size = sum(page.map(sizeOf))
    const isLong = size > mostBytesPerPage
    const [stories, ratings, queued] = await Promise.all([
      selectParts(sql, ids, isLong ? noSteps : undefined),
      sql<{ run_id: string; rating: 'up' | 'down' }>`
        select run_id, rating from feedback where run_id = any(${ids}::uuid[])`,
      before === undefined ? selectQueued(sql, thread_id) : [],
    ])
    return { page, size, isLong, hasEarlier: found.length > page.length, stories, ratings, queued }
  })

  charge(size)
  if (isLong) {
    for (const { run } of stories) {
      let n = 0
      const steps = page.find(({ id }) => id === run.id)?.steps ?? []
      for await (const chunks of readChunks(read, run, steps)) {
        for (const portion of portionsOf(addLinks(chunks))) {
          yield { type: 'chat/message-part', request_id, thread_id, message_id: run.id, n, chunks: portion }
          n += portion.length
        }
      }
    }
  }
  const ratingOf = new Map(ratings.map(({ run_id, rating }) => [run_id, rating]))
  const messages = stories.flatMap((story) =>
    describeMessages(story, isLong ? [] : addLinks(describeStory(story)), ratingOf.get(story.run.id) ?? null),
  )
  yield {
    type: 'chat/message-list',
    request_id,
    thread_id,
    messages: [...messages, ...queued.map((message) => describeWritten(message, true))],
    before: hasEarlier ? (page.at(-1)?.position ?? null) : null,
  }
}

const noSteps = { from: 0, to: 0 }

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const sizeOf = ({ steps }: RunSize): number => sum(steps.map(({ size }) => size))

/** As many of the latest runs as a page has room for. */
function chooseRuns(latestFirst: readonly RunSize[]): RunSize[] {
  let size = 0
  return latestFirst.filter((run, index) => {
    size += sizeOf(run)
    return index < leastRunsPerPage || size <= mostBytesPerPage
  })
}

/** All chunks of a run, a few steps at a time. */
async function* readChunks(read: Read, run: RunRow, steps: RunSize['steps']): AsyncGenerator<Chunk[]> {
  yield [startChunk(run.id)]
  for (let [first, ...rest] = steps; first; [first, ...rest] = rest) {
    const range = { from: first.step, to: first.step }
    for (let { size } = first; rest[0] && size + rest[0].size <= mostBytesPerPage; rest = rest.slice(1)) {
      size += rest[0].size
      range.to = rest[0].step
    }
    const [part] = await read((sql) => selectParts(sql, [run.id], range))
    // It may have been erased meanwhile.
    if (part) yield describeSteps(part)
  }
  yield describeEnd(run)
}

/** Messages that entered during the run are among its chunks. */
function describeMessages(story: RunStory, chunks: readonly Chunk[], feedback: 'up' | 'down' | null): Message[] {
  const { run, messages } = story
  const asked = messages
    .filter(({ step }) => step === 1 || step === null)
    .map((message) => describeWritten(message, false))
  const { id, created_at, status, error } = run
  return [...asked, { role: 'assistant', id, created_at, status, error, chunks: [...chunks], feedback }]
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
  { holder, visitor, is_own_frame }: Speaker,
  { message_id, rating, comment }: Asked<'chat/feedback'>,
): Promise<void> =>
  database.asHolder(holder, (sql: Sql) =>
    saveFeedback(sql, {
      runId: message_id,
      endUserId: holder.end_user?.id ?? null,
      visitor: visitor ?? null,
      place: is_own_frame ? undefined : { origin: holder.origin ?? null, frameKey: holder.frame_key ?? null },
      rating,
      comment: comment || null,
    }),
  )
