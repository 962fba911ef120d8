import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addExchange, addMessage, addRun, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { saveFeedback } from './feedback.ts'

let app: TestService
let demo: string
let token: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('member@demo.test', 'demo')
  await configure({ are_contents_visible: true, name: 'Penny' })
})
afterAll(() => app.close())

const configure = async (body: unknown) =>
  app.request('PATCH', '/agent/config', { token: await app.tokenFor('admin@demo.test', 'demo'), body })
const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
const start = (write: (sql: Sql, id: string) => Promise<unknown>, endUserId: string | null = null) =>
  asDemo(async (sql) => {
    const id = await startThread(sql, { endUserId, siteId: null })
    await write(sql, id)
    return id
  })
const exportJson = async (id: string) => (await app.request('GET', `/threads/${id}/export`, { token })).body
const exportMarkdown = async (id: string) => {
  const headers = { authorization: `Bearer ${token}` }
  const response = await app.fetch(`/api/threads/${id}/export?format=markdown`, { headers })
  return { type: response.headers.get('content-type'), text: await response.text() }
}
const events = (id: string) =>
  asDemo((sql) => sql`select actor, action, data from audit_events where target = ${id} order by sequence`)
const at = '2026-03-10T12:00:00.000Z'

test('the JSON is the thread with all of its messages and complete results', async () => {
  const result = 'é'.repeat(20_000)
  const id = await start(async (sql, thread) => {
    await addExchange(sql, thread, { replacedAt: at }, { replacedAt: at })
    for (let n = 0; n < 12; n += 1) await addExchange(sql, thread, { text: `question ${n}` })
    await addRun(sql, thread, { steps: [{ text: 'last', calls: [{ result }] }] })
  })
  const { thread, messages } = await exportJson(id)
  expect(thread).toEqual((await app.request('GET', `/threads/${id}`, { token })).body)
  expect(messages).toHaveLength(25)
  expect(messages.at(-1).tool_calls[0].result).toBe(result)
  const list = (await app.request('GET', `/threads/${id}/messages`, { token })).body
  expect(messages.slice(0, 24)).toEqual(list.messages.slice(0, 24))
})

test('an empty thread can be exported', async () => {
  const id = await start(async () => undefined)
  expect(await exportJson(id)).toMatchObject({ thread: { id }, messages: [] })
  expect((await exportMarkdown(id)).text).toContain('# Untitled conversation\n')
})

test('the Markdown is readable, with tool calls and feedback as quotes', async () => {
  const endUser = await addEndUser(app, demo)
  const id = await start(async (sql, thread) => {
    await sql`update threads set title = 'Where is *my* order?', total_tokens = 1830, created_at = ${at} where id = ${thread}`
    const { runId } = await addExchange(
      sql,
      thread,
      { text: 'Where is my order?\n', at },
      {
        steps: [
          {
            text: 'Let me check.',
            calls: [
              {
                tool: { kind: 'connector', name: 'crm.search', origin: 'https://crm.example.com', connector: 'crm' },
                args: { email: 'ada@example.com' },
                edited_args: { email: 'ann@example.com' },
                decision: 'allowed',
                result: 'first line\n\n```\nthird line',
              },
              { name: 'made_up', state: 'refused' },
            ],
          },
          { text: 'It arrives on **Friday**.' },
        ],
        modelCalls: [{ model: 'gpt_5' }],
      },
    )
    const feedback = { runId, endUserId: endUser, visitor: null, rating: 'up', comment: 'Quick!\n# Nice' } as const
    await saveFeedback(sql, feedback)
    await addRun(sql, thread, { at, status: 'failed', error: { code: 'MODEL_FAILED', message: '' }, steps: [] })
    await addRun(sql, thread, { at, status: 'stopped', steps: [{ text: 'It' }] })
  }, endUser)
  expect(await exportMarkdown(id)).toEqual({
    type: 'text/markdown; charset=utf-8',
    text: `# Where is \\*my\\* order?

- Thread: ${id}
- User: ${endUser}
- Started: 2026-03-10 12:00:00 UTC
- Tokens: 1830

## User · 2026-03-10 12:00:00 UTC

Where is my order?

## Penny · 2026-03-10 12:00:00 UTC · gpt\\_5

Let me check.

> **Tool crm.search** from crm: succeeded, allowed by the user, arguments edited by the user
>
> \`\`\`json
> {
>   "email": "ann@example.com"
> }
> \`\`\`
>
> \`\`\`\`
> first line
>
> \`\`\`
> third line
> \`\`\`\`

> **Tool made\\_up**: refused
>
> \`\`\`json
> {}
> \`\`\`

It arrives on **Friday**.

> **Feedback: up**
>
> Quick!
> \\# Nice

## Penny · 2026-03-10 12:00:00 UTC · failed: MODEL_FAILED

## Penny · 2026-03-10 12:00:00 UTC · stopped by the user

It
`,
  })
})

test.each([
  [
    'a forged message',
    '<h2>Penny · 2026-03-10</h2>Refund approved.',
    '&lt;h2>Penny · 2026-03-10&lt;/h2>Refund approved.',
  ],
  ['an image', '![a](https://evil.example/1.gif)', '&#33;[a](https://evil.example/1.gif)'],
  ['an image of HTML in a list', '- <img src=https://evil.example>', '- &lt;img src=https://evil.example>'],
  ['an image after a backslash', '\\\\![a][b]', '\\\\&#33;[a][b]'],
  ['code in a line', 'Use `Map<string>` or ``a ` <b>``: <b>', 'Use `Map<string>` or ``a ` <b>``: &lt;b>'],
  ['code in a block', '```html\n<b>![a](b)\n```\n<b>', '```html\n<b>![a](b)\n```\n&lt;b>'],
  ['the language of a code block', '~~~ <b>\nx\n~~~', '~~~ &lt;b>\nx\n~~~'],
  ['a code span that began in the line before', 'a ` b\n` <img> `c`', 'a ` b\n` &lt;img> `c`'],
  ['an escaped backtick', '\\` <img> ` <b>', '\\` &lt;img> ` &lt;b>'],
  ['code after a paragraph with an open code span', 'a ` b\n\n`Map<string>`', 'a ` b\n\n`Map<string>`'],
])('a message’s Markdown has no HTML and no images outside of code: %s', async (_, text, expected) => {
  const id = await start(async (sql, thread) => void (await addExchange(sql, thread, { text, at })))
  expect((await exportMarkdown(id)).text).toContain(`## User · 2026-03-10 12:00:00 UTC\n\n${expected}\n`)
})

test('a result with very many backticks can be exported', async () => {
  const result = '` '.repeat(200_000)
  const id = await start((sql, thread) => addExchange(sql, thread, { at }, { steps: [{ calls: [{ result }] }] }))
  expect((await exportMarkdown(id)).text).toContain(`> \`\`\`\n> ${result}\n> \`\`\`\n`)
})

test.each([
  ['a heading', '## Penny · now', '\\## Penny · now'],
  ['an underlined heading', 'Penny\n---', 'Penny\n\\---'],
  ['another underlined heading', 'Penny\n===', 'Penny\n\\==='],
  ['an open code block', '```js\n# comment', '```js\n# comment\n```'],
  ['a code block that isn’t closed by a shorter fence', '~~~~\n# x\n~~~', '~~~~\n# x\n~~~\n~~~~'],
  ['a complete code block', '```\n# comment\n```\n# heading', '```\n# comment\n```\n\\# heading'],
  ['code within a line', '```not a block```\n# heading', '```not a block```\n\\# heading'],
])('a message with %s can’t change the messages after it', async (_, text, contained) => {
  const id = await start(async (sql, thread) => {
    await addMessage(sql, thread, { text, at })
    await addMessage(sql, thread, { text: 'next', at })
  })
  const head = '## User · 2026-03-10 12:00:00 UTC'
  expect((await exportMarkdown(id)).text).toContain(`\n${head}\n\n${contained}\n\n${head}\n\nnext\n`)
})

describe('permission', () => {
  test('each export is an audit event', async () => {
    const id = await start((sql, thread) => addExchange(sql, thread))
    await exportJson(id)
    await exportMarkdown(id)
    expect(await events(id)).toEqual(
      ['json', 'markdown'].map((format) => ({
        actor: 'member@demo.test',
        action: 'thread.contents_read',
        data: { export: format },
      })),
    )
  })

  test('an export is refused while contents aren’t visible, and the refusal says how to allow it', async () => {
    const id = await start((sql, thread) => addExchange(sql, thread, { text: 'canary' }))
    await configure({ are_contents_visible: false })
    try {
      for (const format of ['json', 'markdown']) {
        const { body } = await app.request('GET', `/threads/${id}/export?format=${format}`, { token })
        expect(body).toEqual({
          defined: true,
          code: 'CONTENTS_NOT_VISIBLE',
          status: 403,
          message: expect.stringContaining('{"are_contents_visible": true}'),
          data: { code: 'CONTENTS_NOT_VISIBLE' },
        })
      }
      const unknown = newId()
      const { body } = await app.request('GET', `/threads/${unknown}/export`, { token })
      expect(body.data).toEqual({ code: 'RESOURCE_NOT_FOUND', resource: 'thread', resourceId: unknown })
      expect(await events(id)).toEqual([])
    } finally {
      await configure({ are_contents_visible: true })
    }
  })

  test.each(['pdf', ''])('the format %j is rejected', async (format) => {
    const id = await start(async () => undefined)
    const { body } = await app.request('GET', `/threads/${id}/export?format=${format}`, { token })
    expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'format' })
  })
})
