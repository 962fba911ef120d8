import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ChatState, Entry } from '../../../../widget/src/chat/state.ts'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { type ChatTab, openChatTab, openTab } from '../../../test/chat-client.ts'
import { offer, type Page } from '../../../test/page.ts'
import type { Script, ScriptedModel } from '../../../test/scripted-model.ts'
import type { Person } from '../../../test/shop.ts'

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  shop = await startAgentShop()
  model = shop.model
  await shop.request('PATCH', '/agent/config', { token: shop.admin, body: { anonymous: { is_enabled: true } } })
})
afterAll(() => shop.close())

let people = 0
/** Each test has its own user, with no threads yet. */
const newPerson = (): NonNullable<Person> => {
  people += 1
  return { sub: `person-${people}` }
}

async function converse(script: Script) {
  model.follow(script)
  const person = newPerson()
  const tab = openTab()
  const chat = openChatTab(shop, tab)
  const page = await chat.connect(person)
  return { person, tab, chat, page }
}

function hold() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { until: promise, release: () => resolve() }
}

const show = (entry: Entry): string => {
  if (entry.role === 'user') return `${entry.delivery}: ${entry.text}`
  const parts = entry.parts.map((part) => {
    if (part.kind === 'tool') return `[${part.name} ${part.state}]`
    return part.kind === 'steering' ? `(${part.text})` : part.kind === 'text' ? part.text : part.kind
  })
  return `${entry.status}: ${parts.join(' ')}`
}
const shown = ({ state }: ChatTab['session']) => state.entries.map(show)
const isResting = ({ entries }: ChatState) => {
  const last = entries.at(-1)
  return last?.role === 'assistant' && last.status !== 'running'
}
const hasText = (text: string) => (state: ChatState) => state.entries.some((entry) => show(entry).includes(text))
const isAsking = ({ questions }: ChatState) => questions.length > 0

/** Asks to add an item, and says what the tool said. */
const adds: Script = ({ messages }) => {
  const last = messages.at(-1)
  return last?.role === 'tool'
    ? { text: [`Result: ${/added \d+|declined/.exec(JSON.stringify(last.content))?.[0]}`] }
    : { calls: [{ name: 'add', args: { id: 7 } }] }
}
async function offerAdding(page: Page): Promise<void> {
  await offer(page, 'add')
  page.answer(({ args }) => `added ${args.id}`)
}

describe('a conversation', () => {
  test('asks about a call, with other arguments, and continues', async () => {
    const { chat, page } = await converse(adds)
    const { session } = chat
    await offerAdding(page)
    session.setDraft('Add it')
    session.send('Add it')
    expect([shown(session), session.state.draft]).toEqual([['sending: Add it'], ''])
    const [question] = (await chat.until((state) => isAsking(state) && isResting(state))).questions
    expect(shown(session)).toEqual(['delivered: Add it', 'waiting: [add asking]'])
    expect(question).toMatchObject({ place: 'page', input: { id: 7 }, inputSchema: { type: 'object' } })
    expect(session.state).toMatchObject({ isWorking: false, title: 'Add it' })
    session.decide(question?.callId ?? '', { isApproved: true, editedArgs: { id: 8 } })
    expect(session.state.questions).toEqual([])
    await chat.until(({ entries }) => entries.some((entry) => show(entry).startsWith('succeeded')))
    expect(shown(session)).toEqual(['delivered: Add it', 'succeeded: [add done] Result: added 8'])
    expect(session.state.entries[1]).toMatchObject({ parts: [{ editedInput: { id: 8 }, output: 'added 8' }, {}] })
    const { threadId } = session.state
    expect(chat.events).toMatchObject([
      { type: 'sent', threadId },
      { type: 'asked', threadId, callId: question?.callId },
      { type: 'answered', threadId, status: 'succeeded' },
    ])
  })

  test('knows the agent', async () => {
    const { chat } = await converse(() => ({}))
    const { agent } = await chat.until(({ agent }) => agent !== undefined)
    expect(agent).toMatchObject({ name: 'Assistant', problem: undefined })
  })

  test('can be stopped, edited and answered again', async () => {
    const held = hold()
    const { chat } = await converse((_, count) => ({
      text: ['Fi', ...(count === 1 ? [held.until] : []), `rst ${count}`],
    }))
    model.requests.length = 0
    const { session } = chat
    session.send('Hi')
    await chat.until(hasText('Fi'))
    expect(session.state.isWorking).toBe(true)
    session.edit('Too early')
    expect(session.state.problem?.code).toBe('RUN_ACTIVE')
    session.stop()
    await chat.until(isResting)
    held.release()
    expect(shown(session)).toEqual(['delivered: Hi', 'stopped: Fi'])
    session.edit('Hi there')
    expect(shown(session)).toEqual(['sending: Hi there'])
    await chat.until(isResting)
    expect(shown(session)).toEqual(['delivered: Hi there', 'succeeded: First 2'])
    session.regenerate()
    await chat.until(hasText('First 3'))
    await chat.until(isResting)
    expect(shown(session)).toEqual(['delivered: Hi there', 'succeeded: First 3'])
  })

  test('shows a message during the answer as queued, until it enters', async () => {
    const held = hold()
    const { chat, page } = await converse(({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? { text: ['Done'] }
        : { text: ['One', held.until], calls: [{ name: 'look', args: {} }] },
    )
    page.send({ type: 'tools/list', tools: [{ name: 'look', annotations: { readOnlyHint: true } }] })
    page.answer(() => 'seen')
    const { session } = chat
    session.send('First')
    await chat.until(hasText('One'))
    session.send('Second')
    await chat.until(hasText('queued: Second'))
    held.release()
    await chat.until(isResting)
    expect(shown(session)).toEqual(['delivered: First', 'succeeded: One [look done] (Second) Done'])
  })

  test('keeps a refused message, and sends it again', async () => {
    const held = hold()
    const { chat } = await converse((_, count) => ({ text: ['One', ...(count === 1 ? [held.until] : [])] }))
    model.requests.length = 0
    const { session } = chat
    session.send('First')
    await chat.until(hasText('One'))
    for (const text of ['a', 'b', 'c', 'd', 'e', 'f']) session.send(text)
    await chat.until(hasText('refused: f'))
    expect(session.state.problem).toMatchObject({ code: 'TOO_MANY_MESSAGES' })
    held.release()
    await chat.until(
      ({ entries, isWorking }) => !isWorking && !entries.some((entry) => show(entry).startsWith('queued')),
    )
    expect(shown(session).at(-1)).toBe('refused: f')
    session.regenerate()
    expect(session.state.problem).toBe(undefined)
    await chat.until(
      ({ entries }) => hasText('delivered: f')({ entries } as ChatState) && isResting({ entries } as ChatState),
    )
    expect(shown(session).at(-2)).toBe('delivered: f')
  })

  test('is rated', async () => {
    const { chat, tab, person } = await converse(() => ({ text: ['Hello'] }))
    chat.session.send('Hi')
    const { entries } = await chat.until(isResting)
    chat.session.rate(entries[1]?.id ?? '', 'down', 'Wrong')
    expect(chat.session.state.entries[1]).toMatchObject({ feedback: 'down' })
    chat.drop()
    await chat.connect(person)
    const demo = await shop.organization('demo')
    const stored = () => shop.service.database.asOrg(demo, (sql) => sql`select from feedback where comment = 'Wrong'`)
    await expect.poll(stored).toHaveLength(1)
    const again = openChatTab(shop, tab)
    await again.connect(person)
    await expect.poll(() => again.session.state.entries[1]).toMatchObject({ feedback: 'down' })
  })
})

describe('after the socket dropped', () => {
  test('in the middle of an answer, the text is complete', async () => {
    const held = hold()
    const { chat, person } = await converse(() => ({ text: ['One ', 'two ', held.until, 'three'] }))
    chat.session.send('Count')
    await chat.until(hasText('One two'))
    chat.drop()
    held.release()
    await chat.connect(person)
    await chat.until(isResting)
    expect(shown(chat.session)).toEqual(['delivered: Count', 'succeeded: One two three'])
    expect(chat.events.map(({ type }) => type)).toEqual(['sent', 'answered'])
  })

  test('in the middle of an answer, it continues', async () => {
    const held = hold()
    const { chat, person } = await converse(() => ({ text: ['One ', 'two ', held.until, 'three'] }))
    chat.session.send('Count')
    await chat.until(hasText('One two'))
    chat.drop()
    const page = await chat.connect(person)
    await page.next('chat/message-list')
    expect(shown(chat.session)).toEqual(['delivered: Count', 'running: One two '])
    held.release()
    await chat.until(isResting)
    expect(shown(chat.session)).toEqual(['delivered: Count', 'succeeded: One two three'])
  })

  test('in the middle of a question, the answer is sent once it is back', async () => {
    const { chat, page, person } = await converse(adds)
    await offerAdding(page)
    chat.session.send('Add it')
    const [question] = (await chat.until((state) => isAsking(state) && isResting(state))).questions
    chat.drop()
    chat.session.decide(question?.callId ?? '', { isApproved: false })
    expect([chat.session.state.questions, shown(chat.session)[1]]).toEqual([[], 'waiting: [add declined]'])
    await chat.connect(person)
    await chat.until(hasText('succeeded'))
    expect(shown(chat.session)).toEqual(['delivered: Add it', 'succeeded: [add declined] Result: declined'])
    expect(chat.session.state.problem).toBe(undefined)
  })

  test('before the response to a message, it is sent once', async () => {
    const { chat, person } = await converse(() => ({ text: ['Hello'] }))
    chat.lose(({ type }) => type === 'chat/start' || type === 'chat/chunk' || type === 'chat/end')
    chat.session.send('Hi')
    await expect.poll(() => model.requests.length).toBeGreaterThan(0)
    chat.drop()
    expect(shown(chat.session)).toEqual(['waiting: Hi'])
    chat.lose(() => false)
    await chat.connect(person)
    await chat.until((state) => isResting(state) && hasText('delivered')(state))
    expect(shown(chat.session)).toEqual(['delivered: Hi', 'succeeded: Hello'])
  })

  test('messages typed meanwhile are sent in order, also after a reload', async () => {
    const { chat, tab, person } = await converse(({ messages }) => ({ text: [`Heard ${messages.length}`] }))
    chat.drop()
    chat.session.send('First')
    chat.session.send('Second', 'inlay-skills')
    expect(shown(chat.session)).toEqual(['waiting: First', 'waiting: Second'])
    const again = openChatTab(shop, tab)
    await again.connect(person)
    expect(again.session.state.entries).toMatchObject([{ text: 'First' }, { text: 'Second' }])
    await again.until(
      ({ entries, isWorking }) =>
        !isWorking &&
        entries.length > 1 &&
        !entries.some((entry) => /^(waiting|sending|queued|running)/.test(show(entry))),
    )
    const written = again.session.state.entries.flatMap((entry) =>
      entry.role === 'user'
        ? [entry.text]
        : entry.parts.flatMap((part) => (part.kind === 'steering' ? [part.text] : [])),
    )
    expect(written).toEqual(['First', 'Second'])
    expect([...tab.session.keys()].filter((key) => key.includes('outbox'))).toEqual([])
  })

  test('a lost chunk is asked for', async () => {
    const held = hold()
    const { chat } = await converse(() => ({ text: ['One ', held.until, 'two'] }))
    let lost = 0
    chat.lose((message) => message.type === 'chat/chunk' && JSON.stringify(message).includes('One') && lost++ === 0)
    chat.session.send('Count')
    await expect.poll(() => lost).toBe(1)
    held.release()
    await chat.until(isResting)
    expect(shown(chat.session)).toEqual(['delivered: Count', 'succeeded: One two'])
  })
})

describe('a second tab', () => {
  test('shows what the other one writes, and the answer', async () => {
    const { chat, tab, person } = await converse((_, count) => ({ text: [`Answer ${count}`] }))
    model.requests.length = 0
    chat.session.send('First')
    const { threadId } = await chat.until(isResting)
    const other = openChatTab(shop, openTab(tab))
    await other.connect(person)
    other.session.openThread(threadId)
    await other.until(hasText('Answer 1'))
    chat.session.send('Second')
    await other.until((state) => hasText('Second')(state) && hasText('succeeded: Answer 2')(state))
    const both = ['delivered: First', 'succeeded: Answer 1', 'delivered: Second', 'succeeded: Answer 2']
    expect(shown(other.session)).toEqual(both)
    await chat.until(isResting)
    chat.session.edit('Other')
    await other.until((state) => hasText('Other')(state) && hasText('succeeded: Answer 3')(state))
    expect(shown(other.session)).toEqual([...both.slice(0, 2), 'delivered: Other', 'succeeded: Answer 3'])
    other.session.regenerate()
    await chat.until(hasText('succeeded: Answer 4'))
    await expect
      .poll(() => shown(chat.session))
      .toEqual([...both.slice(0, 2), 'delivered: Other', 'succeeded: Answer 4'])
  })

  test('no longer asks what the other one has answered, and isn’t told of an error', async () => {
    const { chat, tab, page, person } = await converse(adds)
    await offerAdding(page)
    chat.session.send('Add it')
    const { threadId, questions } = await chat.until((state) => isAsking(state) && isResting(state))
    const callId = questions[0]?.callId ?? ''
    const other = openChatTab(shop, openTab(tab))
    await other.connect(person)
    other.session.openThread(threadId)
    await other.until(isAsking)
    chat.session.decide(callId, { isApproved: true })
    other.session.decide(callId, { isApproved: false })
    for (const each of [chat, other]) {
      await each.until(hasText('succeeded'))
      expect(shown(each.session)[1]).toMatch(/succeeded: \[add (done|declined)\] Result/)
      expect(each.session.state).toMatchObject({ questions: [], problem: undefined })
    }
    expect(shown(chat.session)).toEqual(shown(other.session))
  })
})

describe('after a reload', () => {
  test('the tab shows its thread, its draft and the answer in progress, and has stored none of the answer', async () => {
    const held = hold()
    const { chat, tab, person } = await converse(() => ({ text: ['Secret answer ', held.until, 'ends'] }))
    chat.session.send('Hi')
    await chat.until(hasText('Secret answer'))
    chat.session.setDraft('And then')
    const { threadId } = chat.session.state
    chat.drop()
    expect(JSON.stringify([...tab.session, ...tab.local])).not.toContain('Secret')
    const again = openChatTab(shop, tab)
    await again.connect(person)
    expect(again.session.state).toMatchObject({ threadId, draft: 'And then', isLoading: true })
    await again.until(hasText('running: Secret answer'))
    held.release()
    await again.until(isResting)
    expect(shown(again.session)).toEqual(['delivered: Hi', 'succeeded: Secret answer ends'])
    expect(again.events).toMatchObject([{ type: 'answered' }])
  })

  test('without storage, the tab continues the thread in which the agent works', async () => {
    const held = hold()
    const { chat, person } = await converse(() => ({ text: ['One ', held.until, 'two'] }))
    chat.session.send('Hi')
    await chat.until(hasText('One'))
    const refusing = { ...openTab(), isRefusing: true }
    const again = openChatTab(shop, refusing)
    await again.connect(person)
    await again.until(hasText('running: One'))
    held.release()
    await again.until(isResting)
    expect(shown(again.session)).toEqual(['delivered: Hi', 'succeeded: One two'])
    const later = openChatTab(shop, refusing)
    const page = await later.connect(person)
    await page.next('chat/thread-list')
    expect(shown(later.session), 'but not one that rests').toEqual([])
  })

  test('an answer that was completed meanwhile is news', async () => {
    const held = hold()
    const { chat, tab, person } = await converse(() => ({ text: ['One ', held.until, 'two'] }))
    chat.session.send('Hi')
    await chat.until(hasText('One'))
    const again = openChatTab(shop, tab)
    chat.lose(() => true)
    held.release()
    const watching = openChatTab(shop)
    await watching.connect(person)
    watching.session.openThread(chat.session.state.threadId)
    await watching.until(isResting)
    await again.connect(person)
    await again.until(isResting)
    expect(again.events).toMatchObject([{ type: 'answered', status: 'succeeded' }])
  })

  test('an answer that was complete before isn’t news', async () => {
    const { chat, tab, person } = await converse(() => ({ text: ['Hello'] }))
    chat.session.send('Hi')
    await chat.until(isResting)
    const again = openChatTab(shop, tab)
    const page = await again.connect(person)
    await page.next('chat/no-active')
    await again.until(hasText('succeeded: Hello'))
    expect(again.events).toEqual([])
  })

  test('a draft in a thread without messages is still there', async () => {
    const { chat, tab, person } = await converse(() => ({ text: ['Hello'] }))
    chat.session.setDraft('Unsent')
    const again = openChatTab(shop, tab)
    await again.connect(person)
    await again.until(({ isLoading }) => !isLoading)
    expect(again.session.state).toMatchObject({ draft: 'Unsent', entries: [], problem: undefined })
    again.session.send('Unsent')
    await again.until(isResting)
    expect(shown(again.session)).toEqual(['delivered: Unsent', 'succeeded: Hello'])
  })

  test('another user gets nothing of the former one', async () => {
    const { chat, tab } = await converse(() => ({ text: ['Hello'] }))
    chat.session.send('Hi')
    const { threadId } = await chat.until(isResting)
    chat.session.setDraft('Private')
    chat.drop()
    chat.session.send('Too late')
    const again = openChatTab(shop, tab)
    const other = newPerson()
    for (const session of [again, chat]) {
      await session.connect(other)
      expect(session.session.state).toMatchObject({ entries: [], draft: '', problem: undefined })
      expect(session.session.state.threadId).not.toBe(threadId)
    }
    expect(JSON.stringify([...tab.session, ...tab.local])).not.toMatch(/Private|Too late/)
    expect(JSON.stringify([...tab.session, ...tab.local])).not.toContain(threadId)
  })
})

describe('the thread list', () => {
  test('is searched, and its threads are renamed, archived and deleted', async () => {
    const { chat } = await converse(() => ({ text: ['Hello'] }))
    const { session } = chat
    const ids: string[] = []
    for (const text of ['About ink', 'About paper', 'About pens']) {
      session.newThread()
      shop.clock.now += 1_000
      session.send(text)
      ids.push((await chat.until((state) => isResting(state) && hasText(text)(state))).threadId)
    }
    const [ink = '', paper = '', pens = ''] = ids
    const titles = () => session.state.threads.threads.map(({ title }) => title)
    const isLoaded = ({ threads }: ChatState) => !threads.isLoading
    session.listThreads({})
    await chat.until(isLoaded)
    expect(titles()).toEqual(['About pens', 'About paper', 'About ink'])
    session.listThreads({ query: 'paper' })
    await chat.until(isLoaded)
    expect(titles()).toEqual(['About paper'])
    session.listThreads({ query: '' })
    await chat.until(isLoaded)
    session.renameThread(pens, 'Fountain pens')
    session.archiveThread(ink, true)
    expect(titles()).toEqual(['Fountain pens', 'About paper'])
    expect(session.state.title).toBe('Fountain pens')
    session.deleteThread(pens)
    expect(session.state).toMatchObject({ entries: [], title: null })
    session.listThreads({ isArchive: true })
    await chat.until(isLoaded)
    expect(titles()).toEqual(['About ink'])
    session.listThreads({ isArchive: false })
    await chat.until(isLoaded)
    expect(session.state.threads.threads).toMatchObject([{ id: paper, isArchived: false }])
    session.openThread(paper)
    await chat.until(isResting)
    expect(shown(session)).toEqual(['delivered: About paper', 'succeeded: Hello'])
    expect(session.state.problem).toBe(undefined)
  })

  test('a thread that another tab has deleted is left, and what was typed stays', async () => {
    const { chat, tab, person } = await converse(() => ({ text: ['Hello'] }))
    chat.session.send('Hi')
    const { threadId } = await chat.until(isResting)
    const other = openChatTab(shop, openTab(tab))
    const page = await other.connect(person)
    other.session.deleteThread(threadId)
    await page.next('chat/done')
    chat.session.send('Still there?')
    const { problem } = await chat.until(({ problem }) => problem !== undefined)
    expect(problem?.code).toBe('CONVERSATION_GONE')
    expect(shown(chat.session)).toEqual(['refused: Still there?'])
    chat.session.regenerate()
    await chat.until(isResting)
    expect(shown(chat.session)).toEqual(['delivered: Still there?', 'succeeded: Hello'])
  })

  test('earlier messages are loaded page by page', async () => {
    const { chat, tab, person } = await converse(({ messages }) => ({ text: [`Answer ${messages.length}`] }))
    for (let count = 0; count < 22; count += 1) {
      chat.session.send(`Message ${count}`)
      await chat.until((state) => isResting(state) && state.entries.length === 2 * (count + 1))
    }
    const whole = shown(chat.session)
    const again = openChatTab(shop, tab)
    await again.connect(person)
    await again.until(({ isLoading }) => !isLoading)
    expect(again.session.state.hasEarlier).toBe(true)
    expect(shown(again.session)).toEqual(whole.slice(4))
    again.session.loadEarlier()
    again.session.loadEarlier()
    await again.until(({ hasEarlier }) => !hasEarlier)
    expect(shown(again.session)).toEqual(whole)
    again.drop()
    await (await again.connect(person)).next('chat/message-list')
    expect(shown(again.session), 'a reconnect keeps them').toEqual(whole)
  })
})

describe('a visitor', () => {
  test('keeps the conversation after signing in, if the user wants it', async () => {
    model.follow(() => ({ text: ['Hello visitor'] }))
    const tab = openTab()
    const chat = openChatTab(shop, tab)
    await chat.connect()
    const secret = chat.secret.read()
    chat.session.send('Hi')
    const { threadId } = await chat.until(isResting)
    chat.drop()
    chat.session.send('And this?')
    chat.session.setDraft('Half a sentence')
    const again = openChatTab(shop, tab)
    const person = newPerson()
    await again.connect(person)
    expect(again.session.state).toMatchObject({ canAdopt: true, entries: [], draft: 'Half a sentence' })
    again.session.adopt(true)
    await again.until((state) => isResting(state) && state.entries.length === 4)
    expect(again.session.state).toMatchObject({ canAdopt: false, threadId, draft: 'Half a sentence' })
    const answer = 'succeeded: Hello visitor'
    expect(shown(again.session)).toEqual(['delivered: Hi', answer, 'delivered: And this?', answer])
    expect(again.secret.read()).not.toBe(secret)
  })

  test('is only offered it once, and another user never', async () => {
    model.follow(() => ({ text: ['Hello visitor'] }))
    for (const refuse of [true, false]) {
      const chat = openChatTab(shop)
      await chat.connect()
      chat.session.send('Hi')
      await chat.until(isResting)
      const person = newPerson()
      await chat.connect(person)
      expect(chat.session.state.canAdopt).toBe(true)
      if (refuse) chat.session.adopt(false)
      await chat.connect(refuse ? person : newPerson())
      expect(chat.session.state.canAdopt).toBe(false)
    }
  })
})
