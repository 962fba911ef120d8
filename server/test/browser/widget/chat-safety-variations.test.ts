import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import {
  allow,
  answered,
  approval,
  attacks,
  evil,
  html,
  inFrame,
  inPanel,
  ran,
  tool,
  useAttackedChat,
} from './attacked-chat.ts'
import { quote, write } from './chat-page.ts'
import { clickChoice, frameOf } from './shop.ts'

/** More attacks than chat-safety.test.ts has. */
const { ask, callOnce, expectNothing, frameIn, visit, service: app } = useAttackedChat()

const links = (page: Page) =>
  frameOf(page)
    .getByRole('article')
    .getByRole('link')
    .evaluateAll((found) =>
      found.map((link) => [link.textContent, link.getAttribute('href'), link.target, link.rel].join(' | ')),
    )

const cover = (style: string) =>
  `document.body.append(Object.assign(document.createElement('div'), {
    style: 'position: fixed; z-index: 2147483647; pointer-events: none; background: white; ${style}',
  }))`

describe('an answer', () => {
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
    app().model.follow(() => ({ text: [answer] }))
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
    app().model.follow(() => ({ text: [`A${odd}B a${'\u0301'.repeat(200)}C`] }))
    const visited = await visit()
    await write(visited.page, 'Odd')
    await answered(visited.page)
    const text = await frameOf(visited.page).locator('.text').innerText()
    expect(text).toBe(`AB a${'\u0301'.repeat(5)}C`)
  })

  test('cannot imitate a question: it has no buttons, fields or boxes of ours', async () => {
    app().model.follow(() => ({
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
    await app().configure({
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
    await app().configure({ name: 'Assistant', greeting: '', starter_prompts: [] })
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
})
