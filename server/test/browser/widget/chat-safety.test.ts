import type { Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type ChatPageOptions,
  type ChatService,
  quote,
  type SiteTool,
  startChatService,
  visitChat,
  write,
} from './chat-page.ts'
import { clickChoice, frameOf } from './shop.ts'

let app: ChatService
beforeAll(async () => {
  app = await startChatService()
})
afterAll(() => app.close())

const evil = 'https://evil.example'
const attacks = [
  '<img src=x onerror="top.pwned=1;window.pwned=1">',
  `<script>window.pwned=1</script><script src="${evil}/x.js"></script>`,
  '<svg onload="window.pwned=1"><animate onbegin="window.pwned=1" attributeName=x dur=1s>',
  `<iframe srcdoc="<script>top.pwned=1</script>"></iframe><object data="${evil}/o"></object>`,
  `<style>@import "${evil}/s.css"; * { background: url(${evil}/b.png) }</style><link rel=stylesheet href=${evil}/l.css>`,
  `<form action="${evil}/f"><button autofocus onfocus="window.pwned=1">Allow once</button></form>`,
  `<a href="javascript:window.pwned=1" id=location name=pwned>click</a><base href="${evil}/">`,
  '<details open ontoggle="window.pwned=1"><summary>x</summary></details><math><mtext><table><mglyph><style><img src=x onerror="window.pwned=1">',
]
const html = attacks.join('\n')

/** Visits, and records everything that must not happen. */
async function visit(options: ChatPageOptions = {}) {
  const initScript = `${options.initScript ?? ''}
    // As a page can that runs before the widget's script.
    const { postMessage } = MessagePort.prototype
    MessagePort.prototype.postMessage = function (...given) {
      window.port = this
      return postMessage.apply(this, given)
    }
    window.violations = []
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
      violations.push(violatedDirective + ' ' + blockedURI))`
  const hosts = new Set<string>()
  const dialogs: string[] = []
  const page = await visitChat(app, { viewport: { width: 1000, height: 800 }, ...options, initScript })
  page.on('request', (request) => hosts.add(new URL(request.url()).host))
  page.context().on('page', (opened) => dialogs.push(opened.url()))
  page.on('dialog', (dialog) => {
    dialogs.push(dialog.message())
    void dialog.dismiss()
  })
  return { page, hosts, dialogs }
}

const frameIn = (page: Page): Frame => {
  const frame = page.frames().find((each) => each.url().startsWith(`${app.url}/embed/`))
  if (!frame) throw new Error('There is no frame')
  return frame
}

async function expectNothing({ page, hosts, dialogs }: Awaited<ReturnType<typeof visit>>): Promise<void> {
  const frame = frameIn(page)
  const signs = await Promise.all(
    [page.mainFrame(), frame].map((each) => each.evaluate('[typeof window.pwned, window.violations]')),
  )
  expect(signs).toEqual([
    ['undefined', []],
    ['undefined', []],
  ])
  expect(dialogs).toEqual([])
  const ours = [new URL(app.url).host, new URL(page.url()).host]
  expect(
    [...hosts].filter((host) => host !== '' && !ours.includes(host)),
    'no other host is asked',
  ).toEqual([])
  const dangerous = 'script, iframe, object, embed, img, video, audio, style, link, base, form, math, [srcdoc], [style]'
  const attributes = `[...document.querySelectorAll('body *')].flatMap((element) => [...element.attributes])
    .map(({ name }) => name).filter((name) => name.startsWith('on') || name === 'src')`
  expect(await frame.evaluate(`document.querySelectorAll(${JSON.stringify(`body :is(${dangerous})`)}).length`)).toBe(0)
  expect(await frame.evaluate(attributes)).toEqual([])
}

const links = (page: Page) =>
  frameOf(page)
    .getByRole('article')
    .getByRole('link')
    .evaluateAll((found) =>
      found.map((link) => [link.textContent, link.getAttribute('href'), link.target, link.rel].join(' | ')),
    )

const answered = (page: Page) => frameOf(page).locator('[data-status="succeeded"]').last().waitFor()

describe('an answer', () => {
  test('shows HTML as text, in pieces, and when it is loaded again', async () => {
    const pieces = [
      ...`Look:\n\n${html}\n\nInline ${attacks[0]} and ${attacks[6]}\n\n> ${attacks[2]}\n\n- ${attacks[0]}`,
    ]
    app.model.follow(() => ({
      text: pieces.map((_, at) => (at % 7 ? '' : pieces.slice(at, at + 7).join(''))).filter(Boolean),
    }))
    const visited = await visit()
    await write(visited.page, html)
    await answered(visited.page)
    await expectNothing(visited)
    const text = await frameOf(visited.page).getByRole('article').last().innerText()
    expect(text).toContain('<script>window.pwned=1</script>')
    expect(text).toContain('onerror="top.pwned=1')
    const frame = frameOf(visited.page)
    await frame.getByRole('button', { name: 'New conversation' }).click()
    await frame.getByRole('button', { name: 'Conversations' }).click()
    await frame.locator('.thread').first().click()
    await answered(visited.page)
    await expectNothing(visited)
  })

  test('links only to addresses that it shows', async () => {
    const answer = [
      ...['javascript:window.pwned=1', 'JaVaScRiPt:window.pwned=1', 'java&#10;script:window.pwned=1', 'vbscript:x'].map(
        (address) => `[bad](${address})`,
      ),
      '[bad](data:text/html,<script>window.pwned=1</script>) [bad](<javascript:window.pwned=1>) [bad](blob:x) [bad](file:///etc/passwd)',
      `[bad](https://bank.example@evil.example/) [bad](//evil.example) [bad](\\\\evil.example)`,
      `![pixel](${evil}/pixel.png) ![bad](data:image/svg+xml,<svg/onload=alert(1)>)`,
      `[https://bank.example](${evil}/login) [bank.example](${evil}) [Allow once](${evil}/allow)`,
      '[аpple](https://xn--pple-43d.com/) [look](https://аpple.com/)',
      '[bank\u202Elpmaxe](https://evil.example/b) https://bank.example\u200B.evil.example/',
      '[a](https://evil.example "title") [b][ref]\n\n[ref]: javascript:window.pwned=1',
    ].join('\n\n')
    app.model.follow(() => ({ text: [answer] }))
    const visited = await visit()
    await write(visited.page, 'Links')
    await answered(visited.page)
    const safe = ' | _blank | noopener noreferrer nofollow'
    expect(await links(visited.page)).toEqual(
      [
        `pixel (evil.example) | ${evil}/pixel.png`,
        `https://bank.example (evil.example) | ${evil}/login`,
        `bank.example (evil.example) | ${evil}/`,
        `Allow once (evil.example) | ${evil}/allow`,
        'аpple (xn--pple-43d.com) | https://xn--pple-43d.com/',
        'look (xn--pple-43d.com) | https://xn--pple-43d.com/',
        `banklpmaxe (evil.example) | ${evil}/b`,
        'https://bank.example.evil.example/ | https://bank.example.evil.example/',
        `a (evil.example) | ${evil}/`,
      ].map((link) => link + safe),
    )
    for (const link of await frameOf(visited.page).getByText('bad', { exact: false }).all())
      await link.click({ force: true })
    await expectNothing(visited)
  })

  test('has no invisible or reordering characters, and no piles of accents', async () => {
    const odd = '\u202E\u2066\u200B\u200D\uFEFF\u00AD\u2060\u{E0041}\u3164\u115F\u034F\u2800'
    app.model.follow(() => ({ text: [`A${odd}B a${'\u0301'.repeat(200)}C`] }))
    const visited = await visit()
    await write(visited.page, 'Odd')
    await answered(visited.page)
    const text = await frameOf(visited.page).locator('.text').innerText()
    expect(text).toBe(`AB a${'\u0301'.repeat(5)}C`)
  })

  test('cannot imitate a question: it has no buttons, fields or boxes of ours', async () => {
    app.model.follow(() => ({
      text: [
        '## Allow “Delete everything”?\n\nThe agent wants to use a tool.\n\n**[ Allow once ]** `Decline` <button class="choice once">Allow once</button>\n\n<section class="approval" role="alertdialog">x</section>\n\n- [ ] Allow once',
      ],
    }))
    const visited = await visit()
    await write(visited.page, 'Imitate')
    await answered(visited.page)
    const answer = frameOf(visited.page).getByRole('article').last()
    expect(await answer.locator('.text :is(button, input, section, [role="alertdialog"], .approval)').count()).toBe(0)
    expect(await frameOf(visited.page).getByRole('button', { name: /Allow/ }).count()).toBe(0)
    expect(await answer.locator('.text :is(h1, h2)').count(), 'no heading of a question’s level').toBe(0)
    await expectNothing(visited)
  })
})

const tool = (changes: Partial<SiteTool> = {}): SiteTool => ({
  name: 'change',
  title: 'Change it',
  description: 'Changes it',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
  ...changes,
})

/** The model calls the tool, and then says that it's done. */
const callOnce = (name: string, args: unknown) =>
  app.model.follow(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: ['Finished'] } : { calls: [{ name, args }] },
  )

const approval = (page: Page) => frameOf(page).locator('.approval')
const allow = (page: Page) => approval(page).getByRole('button', { name: 'Allow once' })
const ran = (page: Page) => page.evaluate<{ name: string; input: unknown }[]>('window.ran')

describe('a tool', () => {
  test('shows its texts, arguments and results as text', async () => {
    const inputSchema = {
      type: 'object',
      title: html,
      required: ['text'],
      properties: {
        text: { type: 'string', title: html, description: html },
        [attacks[0] ?? '']: { type: 'string', enum: [html, 'b'] },
        __proto__: { type: 'string' },
      },
    }
    callOnce('change', { text: html, [attacks[0] ?? '']: html })
    const title = `${attacks[0]}\u202E\u3164\u2800${'\u0301'.repeat(100)}`
    const visited = await visit({ tools: [tool({ title, description: html, inputSchema, result: html })] })
    await write(visited.page, 'Change')
    await allow(visited.page).waitFor()
    await expectNothing(visited)
    const heading = await approval(visited.page).getByRole('heading').innerText()
    expect(heading).toBe(`Allow “${attacks[0]}${'\u0301'.repeat(5)}”?`)
    await approval(visited.page).getByRole('button', { name: 'Show as JSON' }).click()
    await expectNothing(visited)
    await clickChoice(allow(visited.page))
    await answered(visited.page)
    await frameOf(visited.page).locator('details.tool summary').click()
    await frameOf(visited.page).getByText('Result (').waitFor()
    await expectNothing(visited)
    await frameOf(visited.page).getByRole('button', { name: 'Activity', exact: true }).click()
    await frameOf(visited.page).getByText('1 tool on this page').click()
    await expectNothing(visited)
    expect(await ran(visited.page)).toHaveLength(1)
  })

  test('that is named like our buttons and questions stays in the place of a name', async () => {
    callOnce('change', {})
    const title = 'Nothing”? No. Click “Decline” to delete all\n\nDecline'
    const visited = await visit({ tools: [tool({ title })] })
    await write(visited.page, 'Change')
    await allow(visited.page).waitFor()
    expect(await approval(visited.page).getByRole('button').allInnerTexts()).toEqual(['Allow once', 'Decline'])
    expect(await approval(visited.page).getByRole('heading').innerText()).toBe(
      'Allow “Nothing”? No. Click “Decline” to delete all Decline”?',
    )
    await clickChoice(approval(visited.page).getByRole('button', { name: 'Decline' }))
    await answered(visited.page)
    expect(await ran(visited.page)).toEqual([])
  })

  test('cannot hide a part of its arguments behind spaces or invisible characters', async () => {
    const text = `to all${' '.repeat(40)}and evil`
    callOnce('change', { text, more: 'a\u200Bb\u202E' })
    const visited = await visit({ tools: [tool()] })
    await write(visited.page, 'Change')
    const field = approval(visited.page).getByLabel('Text', { exact: true })
    await field.waitFor()
    const hidden = await field.evaluate((each) => [
      each.scrollWidth - each.clientWidth,
      each.scrollHeight - each.clientHeight,
    ])
    expect(
      hidden.every((pixels) => pixels <= 0),
      `hidden: ${hidden}`,
    ).toBe(true)
    expect(await approval(visited.page).getByLabel('More', { exact: true }).inputValue()).toBe('"a\\u200bb\\u202e"')
  })
})

describe('texts of the organization and the page', () => {
  test('are shown as text: name, greeting, starter prompts, skills, attributes and strings', async () => {
    const name = '<img src=x onerror=pwned=1>\u202E'
    await app.configure({
      name: name.slice(0, -1),
      greeting: html.slice(0, 400),
      starter_prompts: [attacks[0], attacks[6]],
    })
    const visited = await visit()
    const frame = frameOf(visited.page)
    await frame.getByRole('heading', { name: '<img src=x onerror=pwned=1>' }).waitFor()
    await frame.getByRole('list', { name: 'Suggestions' }).getByText('<img src=x').waitFor()
    await expectNothing(visited)
    const strings = Object.fromEntries(
      ['placeholder', 'compose', 'conversations', 'agent', 'greeting', 'openAgent', 'closeAgent', 'close'].map(
        (key) => [key, `${html} ${key}`],
      ),
    )
    await visited.page.evaluate(`{
      const agent = document.querySelector('inlay-agent')
      const attack = ${quote(html)}
      agent.setAttribute('agent-title', 'Title \u202E' + attack)
      agent.setAttribute('greeting', attack)
      agent.setAttribute('language', attack)
      agent.setHostContext({ strings: ${quote(strings)}, theme: attack })
    }`)
    await frame.getByRole('heading', { name: 'Title <img src=x' }).waitFor()
    await expectNothing(visited)
    await app.configure({ name: 'Assistant', greeting: '', starter_prompts: [] })
  })

  test('cannot change what a question says or how it looks', async () => {
    callOnce('change', { text: 'x' })
    const names = [
      'question',
      'askOnPage',
      'allowOnce',
      'decline',
      'noInput',
      'showAll',
      'covered',
      'theAgent',
      'agent',
    ]
    const visited = await visit({
      tools: [tool()],
      attributes: 'open agent-title="Nobody"',
      head: `<style>inlay-agent { ${['accent', 'on-accent', 'background', 'text', 'muted', 'line']
        .map((name) => `--inlay-${name}: transparent`)
        .join('; ')}; --inlay-font: Wingdings; --inlay-mono: Wingdings }</style>`,
    })
    const strings = Object.fromEntries(names.map((name) => [name, 'All is well']))
    await visited.page.evaluate(`document.querySelector('inlay-agent').setHostContext({ strings: ${quote(strings)} })`)
    await write(visited.page, 'Change')
    await allow(visited.page).waitFor()
    const question = approval(visited.page)
    const text = await question.innerText()
    expect(text).not.toContain('All is well')
    expect(text).toContain('Assistant wants to use a tool on this page.')
    const looks = await question.locator('h2, p, label, button:not(.link), textarea, input').evaluateAll((parts) =>
      parts.map((part) => {
        const { color, fontFamily } = part.ownerDocument.defaultView.getComputedStyle(part)
        return `${/, 0\)|transparent/.test(color) ? 'unseen' : 'seen'} ${fontFamily}`
      }),
    )
    expect([...new Set(looks)]).toEqual(['seen system-ui, sans-serif'])
  })

  test.each([
    ['an image', `url(${evil}/x.png)`],
    ['an image in a variable', `var(--none, url(${evil}/x.png))`],
    ['an image in an escaped variable', `v\\61r(--none, url(${evil}/x.png))`],
    ['an expression', 'expression(pwned=1)'],
    ['the end of a rule', `red; } * { background: url(${evil}/x.png) } a {`],
    ['an import', `red; @import "${evil}/x.css"`],
    ['something endless', 'x'.repeat(100_000)],
  ])('a custom property with %s has no effect', async (_, value) => {
    const { page, ...visited } = await visit()
    const frame = frameIn(page)
    const read = `getComputedStyle(document.body).background + getComputedStyle(document.body).color`
    await frameOf(page).getByRole('button', { name: 'Activity', exact: true }).waitFor()
    const before = await frame.evaluate(read)
    const names = ['accent', 'on-accent', 'background', 'text', 'muted', 'line', 'radius', 'font', 'mono']
    const styles = Object.fromEntries(names.map((name) => [name, value]))
    const look = { theme: 'light', canClose: true, isOpen: true, styles, strings: {}, language: 'de' }
    await page.evaluate(`port.postMessage({ type: 'look', look: ${quote(look)} })`)
    await frameOf(page).getByRole('button', { name: 'Aktivität', exact: true }).waitFor()
    expect(await frame.evaluate(read)).toBe(before)
    expect(await frame.evaluate(`document.documentElement.getAttribute('style')`)).not.toMatch(/inlay/)
    await expectNothing({ page, ...visited })
  })
})

describe('a page', () => {
  const inFrame = `document.querySelector('inlay-agent').shadowRoot.querySelector('iframe')`
  const inPanel = `${inFrame}.parentNode`

  async function ask() {
    callOnce('change', { text: 'x' })
    const visited = await visit({ tools: [tool()], reducedMotion: 'reduce' })
    await write(visited.page, 'Change')
    await allow(visited.page).click({ trial: true })
    const box = await allow(visited.page).boundingBox()
    if (!box) throw new Error('The button isn’t visible')
    return { ...visited, at: { x: box.x + box.width / 2, y: box.y + box.height / 2 } }
  }

  const cover = (style: string) =>
    `document.body.append(Object.assign(document.createElement('div'), {
      style: 'position: fixed; z-index: 2147483647; pointer-events: none; background: white; ${style}',
    }))`

  test.each<[name: string, style: string]>([
    ['transparent', `${inFrame}.style.opacity = '0'`],
    ['nearly transparent, through an element around it', `document.body.style.opacity = '0.02'`],
    ['blurred', `${inFrame}.style.filter = 'blur(9px)'`],
    ['rotated', `${inPanel}.style.transform = 'rotate(0.5deg)'`],
    ['blended with the page', `document.querySelector('inlay-agent').style.mixBlendMode = 'difference'`],
    ['cut to its buttons', `${inFrame}.style.clipPath = 'inset(calc(100% - 130px) 0 0 0)'`],
    ['covered by something that lets clicks through', cover('inset: 0')],
    ['covered except for its buttons', cover('inset: 0 0 auto; height: {top}px')],
    ['covered in its middle', cover('inset: auto 0 auto; top: {middle}px; height: 20px')],
  ])('that makes the question %s gets no approval', async (_, style) => {
    const { page, at, ...visited } = await ask()
    const top = String(Math.round(at.y - 25))
    await page.evaluate(style.replace('{top}', top).replace('{middle}', String(Math.round(at.y - 80))))
    // The choices are also off for a moment whenever they move, so this waits until the browser has noticed. What is
    // cut off isn't covered.
    if (!style.includes('clipPath')) await approval(page).getByRole('alert').waitFor({ state: 'attached' })
    await expect.poll(() => allow(page).getAttribute('aria-disabled')).toBe('true')
    await page.mouse.click(at.x, at.y)
    await allow(page).press('Enter')
    await approval(page).waitFor()
    expect(await ran(page)).toEqual([])
    await expectNothing({ page, ...visited })
  })

  test.each<[name: string, style: string]>([
    ['tiny', `${inPanel}.style.cssText = 'width: 130px; height: 60px; min-height: 0'`],
    ['a strip', `${inPanel}.style.cssText = 'height: 190px; min-height: 0'`],
    [
      'the visible corner of a larger one',
      `${inFrame}.style.cssText = 'position: absolute; height: 640px; width: 400px; bottom: 0; right: 0'
      ${inPanel}.style.cssText = 'height: 330px; min-height: 0'`,
    ],
    ['hidden', `${inPanel}.style.visibility = 'hidden'`],
    ['not displayed', `document.querySelector('inlay-agent').style.display = 'none'`],
    ['outside of the window', `${inPanel}.style.right = '-360px'`],
  ])('that makes the panel %s gets no approval', async (_, style) => {
    const { page } = await ask()
    await page.evaluate(style)
    const frame = frameIn(page)
    const button = `document.querySelector('.approval .once')`
    await expect.poll(() => frame.evaluate(`${button}.ariaDisabled`)).toBe('true')
    await frame.evaluate(`${button}.click()`)
    expect([await frame.locator('.approval').count(), await ran(page)]).toEqual([1, []])
  })

  test.each<[name: string, prepare: string, surprise: string]>([
    [
      'displays the panel',
      `document.querySelector('inlay-agent').style.display = 'none'`,
      `document.querySelector('inlay-agent').style.display = ''`,
    ],
    ['uncovers the panel', `${inFrame}.style.opacity = 0`, `${inFrame}.style.opacity = ''`],
  ])('that %s under the mouse gets no approval, until the user has seen it', async (_, prepare, surprise) => {
    const { page, at } = await ask()
    await page.evaluate(prepare)
    await page.mouse.move(at.x, at.y)
    await expect
      .poll(() => frameIn(page).evaluate(`document.querySelector('.approval .once').ariaDisabled`))
      .toBe('true')
    await page.evaluate(surprise)
    await page.mouse.click(at.x, at.y)
    await page.mouse.dblclick(at.x, at.y)
    expect(await ran(page)).toEqual([])
    await approval(page).waitFor()
    await clickChoice(allow(page))
    await expect.poll(() => ran(page)).toEqual([{ name: 'change', input: { text: 'x' } }])
  })

  test.each<[name: string, prepare: string, surprise: string]>([
    ['moves the visible', `${inPanel}.style.translate = '0 -60px'`, `${inPanel}.style.translate = ''`],
    [
      'scrolls the visible',
      `document.querySelector('main').style.height = '3000px'
      ${inPanel}.style.position = 'absolute'
      scrollTo(0, 60)`,
      'scrollTo(0, 0)',
    ],
    [
      'resizes the visible',
      `${inPanel}.style.cssText = 'top: ' + ${inPanel}.offsetTop + 'px; bottom: auto; height: 420px'`,
      `${inPanel}.style.height = ''`,
    ],
  ])('that %s panel under the mouse gets no approval, until the user has seen it', async (_, prepare, surprise) => {
    const { page, at } = await ask()
    await page.evaluate(prepare)
    await page.mouse.move(at.x - 9, at.y)
    await page.mouse.move(at.x, at.y)
    const place = () => allow(page).boundingBox()
    const moved = await place()
    await expect.poll(() => allow(page).getAttribute('aria-disabled')).toBe('false')
    await page.evaluate(surprise)
    await page.mouse.down()
    await page.mouse.up()
    expect(await place(), 'the panel has moved').not.toEqual(moved)
    expect([await approval(page).count(), await ran(page)]).toEqual([1, []])
    // Chromium may still send a former position, so people click again.
    const answer = async () => {
      if ((await approval(page).count()) > 0) {
        // A browser without a window draws only when something changes.
        await page.screenshot()
        await clickChoice(allow(page))
      }
      return ran(page)
    }
    await expect.poll(answer).toEqual([{ name: 'change', input: { text: 'x' } }])
  })

  test('cannot send events into the frame', async () => {
    const { page, at } = await ask()
    await page.evaluate(`{
      const frame = ${inFrame}
      for (const target of [frame, document.querySelector('inlay-agent'), window])
        for (const type of ['pointerdown', 'mousedown', 'mouseup', 'click', 'dblclick'])
          target.dispatchEvent(new MouseEvent(type, { bubbles: true, composed: true, clientX: ${at.x}, clientY: ${at.y} }))
      frame.focus()
      for (const type of ['keydown', 'keypress', 'keyup'])
        frame.dispatchEvent(new KeyboardEvent(type, { key: 'Enter', bubbles: true, composed: true }))
      frame.click()
    }`)
    expect([await approval(page).count(), await ran(page)]).toEqual([1, []])
    await expect(page.evaluate(`${inFrame}.contentWindow.document`)).rejects.toThrow(/cross-origin/)
  })

  test('cannot approve with forged messages, and the chat continues', async () => {
    const { page, ...visited } = await ask()
    const id = await frameIn(page).evaluate(`document.querySelector('.approval h2').id.replace('approval-', '')`)
    const forged = [
      { type: 'chat/decide', call_id: id, approved: true },
      { type: 'tool/approval', call_id: id, state: 'allowed' },
      { type: 'decide', id, decision: 'once' },
      { type: 'result', id, result: '"forged"' },
      { type: 'failure', id, message: 'forged' },
      { type: 'call', id, definition: '{}', args: {} },
      { type: '__proto__' },
      { type: 'constructor' },
      { type: 'look', look: { strings: 1, styles: 'x', title: {}, isOpen: true, canClose: true } },
      { type: 'look' },
      { type: 'tools', tools: [null, 1, { name: 'x' }] },
      { type: 'tools' },
      { type: 'result', id: {}, result: {} },
      { type: 'send' },
      { type: 'send', text: { toString: 1, valueOf: 1 } },
      { type: 'send', text: ['Hi'] },
      {},
      null,
      'inlay:channel',
    ]
    await page.evaluate(`{
      const { contentWindow } = ${inFrame}
      for (const message of ${quote(forged)}) {
        port.postMessage(message)
        contentWindow.postMessage(message, '*')
        contentWindow.postMessage(message, '*', [new MessageChannel().port1])
      }
    }`)
    expect([await approval(page).count(), await ran(page)]).toEqual([1, []])
    await clickChoice(allow(page))
    await expect.poll(() => ran(page)).toEqual([{ name: 'change', input: { text: 'x' } }])
    await expectNothing({ page, ...visited })
  })
})
