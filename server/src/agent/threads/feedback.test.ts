import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addExchange, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { type NewFeedback, saveFeedback } from './feedback.ts'

let app: TestService
let demo: string
let admin: string
let endUserId: string
const visitor = 'fingerprint of a visitor'
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  admin = await app.tokenFor('admin@demo.test', 'demo')
  endUserId = await addEndUser(app, demo)
})
afterAll(() => app.close())
beforeEach(async () => {
  await asDemo((sql) => sql`delete from threads`)
  await show(true)
})

const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
const show = (are_contents_visible: boolean) =>
  app.request('PATCH', '/agent/config', { token: admin, body: { are_contents_visible } })
const list = async (query = '') => (await app.request('GET', `/feedback${query}`, { token: admin })).body
const save = (runId: string, changes: Partial<NewFeedback> = {}) =>
  asDemo((sql) => saveFeedback(sql, { runId, endUserId, visitor: null, rating: 'up', comment: null, ...changes }))
const notFound = { envelope: { status: 404 } }

/** A thread of the end user or the visitor, with an answer. */
const answer = (owner: string | null = endUserId) =>
  asDemo(async (sql) => {
    const threadId = await startThread(sql, { endUserId: owner, siteId: null })
    if (owner === null)
      await sql`
        update threads set visitor_fingerprint = ${visitor}, visitor_expires_at = now() + interval '1 day'
        where id = ${threadId}`
    const { runId, messageId } = await addExchange(sql, threadId)
    return { threadId, runId, messageId }
  })

describe('saving feedback', () => {
  test.each([
    ['an end user', true],
    ['an anonymous visitor', false],
  ])('works for %s, who can change it and take it back', async (_, isEndUser) => {
    const { threadId, runId } = await answer(isEndUser ? endUserId : null)
    const speaker = isEndUser ? {} : { endUserId: null, visitor }
    await save(runId, { ...speaker, rating: 'down', comment: ' Too slow\r\nfor me ' })
    const first = await list()
    expect(first).toEqual({
      feedback: [
        {
          message_id: runId,
          thread_id: threadId,
          end_user_id: isEndUser ? endUserId : null,
          end_user_name: isEndUser ? `${endUserId}@example.com` : null,
          is_preview: false,
          rating: 'down',
          comment: 'Too slow\nfor me',
          created_at: expect.any(String),
          updated_at: first.feedback[0].created_at,
          reviewed_at: null,
          reviewed_by: null,
        },
      ],
      contents_visible: true,
      next_cursor: null,
    })
    await save(runId, { ...speaker, rating: 'up', comment: '  ' })
    const second = await list()
    expect(second.feedback).toEqual([
      { ...first.feedback[0], rating: 'up', comment: null, updated_at: expect.any(String) },
    ])
    expect(second.feedback[0].updated_at > first.feedback[0].updated_at).toBe(true)
    await save(runId, { ...speaker, rating: null })
    expect((await list()).feedback).toEqual([])
    await save(runId, { ...speaker, rating: null })
  })

  test('is refused for messages of others, without saying whether they exist', async () => {
    const [own, anonymous] = [await answer(), await answer(null)]
    const someone = await addEndUser(app, demo)
    for (const [runId, speaker] of [
      [newId(), {}],
      [own.messageId, {}],
      [own.runId, { endUserId: someone }],
      [own.runId, { endUserId: null, visitor }],
      [own.runId, { endUserId: null, visitor: null }],
      [anonymous.runId, {}],
      [anonymous.runId, { endUserId: null, visitor: 'another' }],
      [anonymous.runId, { endUserId: null, visitor: null }],
      [anonymous.runId, { visitor }],
    ] as const) {
      await expect(save(runId, speaker)).rejects.toMatchObject(notFound)
      await expect(save(runId, { ...speaker, rating: null })).rejects.toMatchObject(notFound)
    }
    const other = await app.organization('other')
    const feedback = { runId: own.runId, endUserId, visitor: null, rating: 'up', comment: null } as const
    const elsewhere = app.service.database.asOrg(other, (sql) => saveFeedback(sql, feedback))
    await expect(elsewhere).rejects.toMatchObject(notFound)
    expect((await list()).feedback).toEqual([])
  })

  test('is refused in deleted threads, and after the visitor’s access ended', async () => {
    const [own, anonymous] = [await answer(), await answer(null)]
    await asDemo((sql) => sql`update threads set status = 'deleted' where id = ${own.threadId}`)
    await asDemo((sql) => sql`update threads set visitor_expires_at = now() where id = ${anonymous.threadId}`)
    await expect(save(own.runId)).rejects.toMatchObject(notFound)
    await expect(save(anonymous.runId, { endUserId: null, visitor })).rejects.toMatchObject(notFound)
  })

  test('accepts comments of 2000 characters', async () => {
    const { runId } = await answer()
    await save(runId, { comment: '語'.repeat(2000) })
    expect((await list()).feedback[0].comment).toBe('語'.repeat(2000))
    for (const comment of ['x'.repeat(2001), 'a\0b', 'a\u202eb', '\ud800'])
      await expect(save(runId, { comment })).rejects.toMatchObject({
        envelope: { status: 400, data: { field: 'comment' } },
      })
  })

  test('keeps one rating when several arrive at once', async () => {
    const { runId } = await answer()
    const ratings = Array.from({ length: 20 }, (_, n) => save(runId, { rating: n % 2 ? 'up' : 'down' }))
    await Promise.all(ratings)
    expect((await list()).feedback).toHaveLength(1)
  })
})

test('feedback can be changed 50 times', async () => {
  const { runId } = await answer()
  for (let n = 0; n < 50; n += 1) await save(runId, { rating: n % 2 ? 'up' : 'down' })
  await save(runId, { rating: 'up' })
  const refused = { envelope: { status: 429, code: 'TOO_MANY_RATINGS' } }
  await expect(save(runId, { rating: 'down' })).rejects.toMatchObject(refused)
  await expect(save(runId, { rating: null })).rejects.toMatchObject(refused)
  expect((await list()).feedback).toMatchObject([{ rating: 'up' }])
})

describe('the list', () => {
  const events = () =>
    asDemo((sql) => sql`select actor, data from audit_events where action = 'feedback.comments_read' order by sequence`)

  test('hides comments while contents aren’t visible; reading them is an audit event', async () => {
    const { runId } = await answer()
    await save(runId, { comment: 'canary' })
    await save((await answer()).runId)
    const before = (await events()).length
    expect((await list()).feedback).toHaveLength(2)
    expect((await events()).slice(before)).toEqual([{ actor: 'admin@demo.test', data: { comments: 1 } }])
    await show(false)
    const hidden = await list()
    expect(hidden).toMatchObject({ contents_visible: false, feedback: [{ comment: null }, { comment: null }] })
    expect(JSON.stringify(hidden)).not.toContain('canary')
    expect(await events()).toHaveLength(before + 1)
  })

  test('is filtered by rating, time and thread, and paginated from the latest', async () => {
    const answers: { runId: string; threadId: string }[] = []
    for (let n = 0; n < 5; n += 1) {
      const { runId, threadId } = await answer()
      await save(runId, { rating: n % 2 ? 'up' : 'down' })
      // Two at a time have the same moment.
      await asDemo(
        (sql) => sql`update feedback set updated_at = ${`2026-03-1${Math.floor(n / 2)}T12:00:00.000Z`}
          where run_id = ${runId}`,
      )
      answers.push({ runId, threadId })
    }
    const indexes = async (query: string) =>
      (await list(query)).feedback.map(({ message_id }: { message_id: string }) =>
        answers.findIndex(({ runId }) => runId === message_id),
      )
    const all = await indexes('')
    expect(all[0]).toBe(4)
    expect(new Set(all.slice(1, 3))).toEqual(new Set([2, 3]))
    expect(new Set(await indexes('?rating=up'))).toEqual(new Set([1, 3]))
    expect(await indexes('?since=2026-03-12')).toEqual([4])
    expect(await indexes('?since=2026-03-11T12:00:00Z')).toEqual(all.slice(0, 3))
    expect(await indexes('?since=2026-03-12&rating=up')).toEqual([])
    expect(await indexes(`?thread_id=${answers[1]?.threadId}`)).toEqual([1])
    expect(await indexes(`?thread_id=${newId()}`)).toEqual([])
    const paged: number[] = []
    for (let query = '?limit=1'; query !== ''; ) {
      paged.push(...(await indexes(query)))
      const { next_cursor } = await list(query)
      query = next_cursor === null ? '' : `?limit=1&cursor=${next_cursor}`
    }
    expect(paged).toEqual(all)
  })

  test.each([
    ['limit=101', 'limit'],
    ['cursor=x', 'cursor'],
    ['rating=1', 'rating'],
    ['since=yesterday', 'since'],
    ['thread_id=x', 'thread_id'],
    ['reviewed=yes', 'reviewed'],
    ['search=x', 'search'],
  ])('rejects %s', async (query, field) => {
    expect((await list(`?${query}`)).data).toEqual({
      code: 'VALIDATION_ERROR',
      field,
      details: expect.stringMatching(/\S/),
    })
  })
})

describe('reviewing feedback', () => {
  const review = (id: string, body: object = { reviewed: true }, token = admin) =>
    app.request('PATCH', `/feedback/${id}`, { token, body })
  const ids = async (query: string) =>
    (await list(query)).feedback.map(({ message_id }: { message_id: string }) => message_id)

  test('says who and when, moves it in the list, and is an audit event; both can be undone', async () => {
    const [first, second] = [await answer(), await answer()]
    await save(first.runId)
    await save(second.runId)
    const { body } = await review(first.runId)
    expect(body).toEqual({
      message_id: first.runId,
      reviewed_at: expect.stringMatching(/Z$/),
      reviewed_by: 'admin@demo.test',
    })
    expect(await ids('?reviewed=true')).toEqual([first.runId])
    expect(await ids('?reviewed=false')).toEqual([second.runId])
    expect((await list('?reviewed=true')).feedback[0]).toMatchObject({ reviewed_by: 'admin@demo.test' })
    expect((await review(first.runId, { reviewed: false })).body).toMatchObject({
      reviewed_at: null,
      reviewed_by: null,
    })
    expect(await ids('?reviewed=true')).toEqual([])
    const events = await asDemo(
      (sql) => sql`
        select action, actor from audit_events where action like 'feedback.%reviewed' and target = ${first.runId}
        order by sequence`,
    )
    expect(events).toEqual([
      { action: 'feedback.reviewed', actor: 'admin@demo.test' },
      { action: 'feedback.unreviewed', actor: 'admin@demo.test' },
    ])
  })

  test.each<[string, Partial<NewFeedback>, boolean]>([
    ['ends when the user changes the rating', { rating: 'down', comment: 'Slow' }, false],
    ['ends when the user writes another comment', { comment: 'Very slow' }, false],
    ['stays when the user sends the same again', { comment: 'Slow' }, true],
    ['stays when the user removes the comment', { comment: null }, true],
  ])('%s', async (_, changes, isReviewed) => {
    const { runId } = await answer()
    await save(runId, { comment: 'Slow' })
    await review(runId)
    const [before] = (await list()).feedback
    await save(runId, changes)
    const [after] = (await list()).feedback
    expect(after.reviewed_by).toBe(isReviewed ? 'admin@demo.test' : null)
    expect(after.reviewed_at).toBe(isReviewed ? before.reviewed_at : null)
  })

  test('is refused for feedback that isn’t there, members and other input', async () => {
    const { runId } = await answer()
    expect((await review(runId)).status).toBe(404)
    await save(runId)
    expect((await review(runId, {})).body.data).toMatchObject({ field: 'reviewed' })
    expect((await review(runId, { reviewed: 'yes' })).status).toBe(400)
    expect((await review(runId, { reviewed: true }, await app.tokenFor('member@demo.test', 'demo'))).status).toBe(403)
  })
})
