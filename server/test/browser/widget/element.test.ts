import { maxChatMessageLength } from '@inlay/protocol'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { generateKey } from '../../../src/visitors/publishable-keys/key-format.ts'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { type PageOptions, usePage, useSite } from '../chromium.ts'
import { frameOf, openActivity, waitUntilConnected } from './shop.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

async function createKey(allowed_origins: string[] = []) {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Page', allowed_origins } })
  return body as { id: string; key: string }
}

/** What an administrator sees about a key. */
async function refusals(keyId: string): Promise<object[]> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body } = await app.request('GET', '/diagnostics/refusals', { token })
  return body.refusals.filter(({ publishable_key_id }: { publishable_key_id: string }) => publishable_key_id === keyId)
}

/** A page on another site than the server's, which records the widget's events. */
const pageWith = (tag: string, head = '') => `<!doctype html><html lang="en"><head><title>Page</title>${head}
  <script nonce="ours">
    window.heard = []
    for (const name of ['initialized', 'error', 'close', 'size-changed', 'message', 'tool-call'])
      addEventListener('inlay-' + name, ({ type, detail }) => heard.push({ type, detail }))
  </script>
  <script src="${app.url}/widget.js"></script></head><body>${tag}</body></html>`

async function visit(tag: string, head?: string, options?: PageOptions): Promise<Page> {
  const page = await usePage(options)
  await page.goto(await useSite(pageWith(tag, head)))
  return page
}

const heard = (page: Page, name: string): Promise<object[]> =>
  page.evaluate(`heard.filter(({ type }) => type === 'inlay-${name}').map(({ detail }) => detail)`)

describe('a tag that is pasted into a page', () => {
  test('connects automatically for an anonymous visitor', async () => {
    const { id, key } = await createKey()
    const page = await visit(`<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`)
    await waitUntilConnected(page)
    const organizationId = await app.organization('demo')
    await expect.poll(() => heard(page, 'initialized')).toEqual([{ userId: id, organizationId }])
    await expect.poll(() => heard(page, 'size-changed')).not.toEqual([])
    const sizes = (await heard(page, 'size-changed')) as { width: number; height: number }[]
    expect(Math.min(...sizes.map(({ width }) => width)), 'never of a hidden frame').toBeGreaterThan(0)
    expect(Math.max(...sizes.map(({ height }) => height))).toBeLessThan(400)
  })

  test('works under a policy that forbids inline styles, HTML strings and all scripts except ours', async () => {
    const { key } = await createKey()
    const policy = `default-src 'none'; script-src 'nonce-ours' ${app.url}; frame-src ${app.url}; require-trusted-types-for 'script'`
    const page = await visit(
      `<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`,
      `<meta http-equiv="content-security-policy" content="${policy}">`,
    )
    await waitUntilConnected(page)
    const height = await page.locator('inlay-agent').evaluate((element) => element.getBoundingClientRect().height)
    expect(height, 'its style is applied').toBeGreaterThan(150)
  })

  test('tells visitors who are not signed in that assistants cannot use the page for them', async () => {
    const { key } = await createKey()
    const page = await visit(`<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`)
    await openActivity(page)
    await frameOf(page).getByText('You’re not signed in to this site.').waitFor()
    expect(await frameOf(page).getByText('your assistants').count()).toBe(0)
  })

  test('without a key waits for connect', async () => {
    const { key } = await createKey()
    const page = await visit('<inlay-agent display-mode="inline"></inlay-agent>')
    await page.getByText("The assistant isn't connected right now.").waitFor()
    await page.evaluate(`document.querySelector('inlay-agent').connect({ publishableKey: '${key}' })`)
    await waitUntilConnected(page)
    await page.evaluate(`document.querySelector('inlay-agent').disconnect()`)
    await page.getByText("The assistant isn't connected right now.").waitFor()
    await page.evaluate(`document.querySelector('inlay-agent').connect({ publishableKey: '${key}' })`)
    await waitUntilConnected(page)
  })
})

describe('a problem is always shown', () => {
  test.each([
    ['an unknown key', () => generateKey('pk', 'development')],
    ['a mistyped key', () => 'pk_test_typo'],
  ])('%s: the developer is told in the frame', async (_, key) => {
    const page = await visit(`<inlay-agent publishable-key="${key()}" display-mode="inline"></inlay-agent>`)
    const alert = frameOf(page).getByRole('alert')
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(
      /^The agent can’t answer\s+INVALID_KEY: The publishable key is not valid\. Check the publishable-key attribute/,
    )
    expect(await heard(page, 'error')).toMatchObject([{ code: 'INVALID_KEY' }])
  })

  test('an empty key: the developer is told in the page, the console and an event', async () => {
    const page = await usePage()
    const warnings: string[] = []
    page.on('console', (message) => warnings.push(message.text()))
    const heading = '<script>window.heard = []; addEventListener("inlay-error", (e) => heard.push(e.detail))</script>'
    const tag = `<inlay-agent publishable-key="" display-mode="inline"></inlay-agent>`
    // The tag precedes the script, as on pages that load the script later.
    await page.goto(await useSite(`<!doctype html>${heading}${tag}<script src="${app.url}/widget.js"></script>`))
    await page.getByText('The publishable key is empty.').waitFor()
    expect(await page.evaluate('heard')).toEqual([{ code: 'INVALID_KEY', message: 'The publishable key is empty.' }])
    expect(warnings).toEqual(['inlay-agent: INVALID_KEY: The publishable key is empty.'])
    const { key } = await createKey()
    await page.evaluate(`document.querySelector('inlay-agent').setAttribute('publishable-key', '${key}')`)
    await waitUntilConnected(page)
    await page.evaluate(`document.querySelector('inlay-agent').setAttribute('publishable-key', '')`)
    await page.getByText('The publishable key is empty.').waitFor()
    expect(await page.locator('inlay-agent iframe').count()).toBe(0)
  })

  test.each([
    ['the key does not allow', ''],
    ['the key does not allow, on a page that sends no referrer', '<meta name="referrer" content="no-referrer">'],
  ])('an origin that %s: developer and administrator are told what to add', async (_, head) => {
    const { id, key } = await createKey(['https://shop.example.com'])
    const page = await visit(`<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`, head)
    const { origin } = new URL(page.url())
    const note = page.getByRole('status').filter({ hasText: `Add ${origin} to the key's allowed origins.` })
    await note.waitFor()
    expect(await page.locator('inlay-agent iframe').isVisible(), 'the browser’s own error page is hidden').toBe(false)
    expect(await heard(page, 'error')).toMatchObject([{ code: 'ORIGIN_NOT_ALLOWED' }])
    expect(await refusals(id)).toMatchObject([
      {
        surface: 'ticket',
        step: 'frame_origin',
        code: 'ORIGIN_NOT_ALLOWED',
        expected: 'https://shop.example.com',
        seen: origin,
        origin,
      },
    ])
  })

  test('an origin that the key does not allow, in a browser that sends no referrer: the developer is told in the page', async () => {
    const { key } = await createKey(['https://shop.example.com'])
    const initScript = `Object.defineProperty(HTMLIFrameElement.prototype, 'referrerPolicy', {
      set() { this.setAttribute('referrerpolicy', 'no-referrer') },
    })`
    const page = await usePage({ initScript })
    const tag = `<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`
    await page.goto(await useSite(pageWith(tag)))
    const note = page.getByRole('status').filter({ hasText: "didn't load from" })
    await note.waitFor()
    expect(await note.innerText()).toContain(`add ${new URL(page.url()).origin} to the key's allowed origins`)
    expect(await heard(page, 'error')).toMatchObject([{ code: 'FRAME_UNAVAILABLE' }])
  })

  test('an unavailable server: the developer is told in the page', async () => {
    const { key } = await createKey()
    const nowhere = 'http://localhost:9'
    const page = await visit(
      `<inlay-agent publishable-key="${key}" display-mode="inline" api-base="${nowhere}"></inlay-agent>`,
    )
    await page
      .getByRole('status')
      .filter({ hasText: `The agent didn't load from ${nowhere}` })
      .waitFor()
  })

  test('in production, visitors get no details', async () => {
    const key = generateKey('pk', 'production')
    const page = await visit(
      `<inlay-agent publishable-key="${key}" display-mode="inline" api-base="http://localhost:9"></inlay-agent>`,
    )
    const note = page.getByRole('status')
    await note.filter({ hasText: "isn't connected" }).waitFor()
    expect(await note.innerText()).toBe("The assistant isn't connected right now.")
    expect(await heard(page, 'error'), 'the page gets the details').toMatchObject([
      { code: 'FRAME_UNAVAILABLE', message: expect.stringContaining('http://localhost:9') },
    ])
  })

  test('an ID token without a trusted provider: the developer is told in the frame', async () => {
    const { id, key } = await createKey()
    const page = await visit('<inlay-agent display-mode="inline"></inlay-agent>')
    await page.evaluate(
      `document.querySelector('inlay-agent').connect({ publishableKey: '${key}', idToken: 'some.id.token' })`,
    )
    await frameOf(page).getByRole('alert').filter({ hasText: 'IDP_NOT_CONFIGURED' }).waitFor()
    const { origin } = new URL(page.url())
    expect(await refusals(id), 'the page’s origin, not the frame’s').toMatchObject([{ step: 'provider', origin }])
  })
})

test('reconnects when the server is available again', async () => {
  const { key } = await createKey()
  const page = await usePage()
  await page.clock.install()
  await page.route('**/embed/**', (route) => route.abort(), { times: 1 })
  await page.goto(await useSite(pageWith(`<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`)))
  const note = page.getByRole('status').filter({ hasText: "The agent didn't load from" })
  await expect.poll(async () => [await page.clock.runFor(1_000), await note.isVisible()][1]).toBe(true)
  await page.clock.runFor(20_000)
  await waitUntilConnected(page)
})

describe('a token', () => {
  test('is in no URL, attribute, storage or member of the page once it was passed on', async () => {
    const { key } = await createKey()
    const canary = 'canary.of.idtoken'
    const page = await usePage()
    const addresses: string[] = []
    page.on('request', (request) => addresses.push(request.url()))
    page.on('websocket', (socket) => addresses.push(socket.url()))
    await page.goto(await useSite(pageWith('<inlay-agent display-mode="inline"></inlay-agent>')))
    await page.evaluate(
      `document.querySelector('inlay-agent').connect({ publishableKey: '${key}', idToken: '${canary}' })`,
    )
    await frameOf(page).getByRole('alert').waitFor()
    const traces = await page.evaluate(`(() => {
      const agent = document.querySelector('inlay-agent')
      const members = Object.getOwnPropertyNames(agent).map((name) => String(agent[name]))
      return [document.documentElement.outerHTML, agent.shadowRoot.innerHTML, JSON.stringify({ ...localStorage, ...sessionStorage }), ...members]
    })()`)
    expect(JSON.stringify([traces, addresses, await page.context().cookies()])).not.toContain(canary)
    const frame = page.frames().find((each) => each.url().includes('/embed/'))
    const kept = await frame?.evaluate(`(() => {
      try { return JSON.stringify({ ...localStorage, ...sessionStorage }) } catch { return 'the browser gives it none' }
    })() + document.documentElement.outerHTML`)
    expect(kept, 'it was sent').toContain('IDP_NOT_CONFIGURED')
    expect(kept).not.toContain(canary)
  })
})

describe('another frame in the page', () => {
  test('cannot give our frame a channel: only the page can', async () => {
    const { key } = await createKey()
    const stranger = await useSite(`<script>
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => { document.title = 'was taken for the page' }
      onmessage = () => {
        parent.frames[0].postMessage('inlay:channel', '*', [port2])
        parent.postMessage('tried', '*')
      }
    </script>`)
    const page = await usePage()
    await page.goto(
      await useSite(`<iframe src="${app.url}/embed/?key=${key}"></iframe><iframe src="${stranger}"></iframe>`),
    )
    // The page comes second, with a channel that the frame accepts.
    await page.evaluate(`new Promise((resolve) => {
      onmessage = ({ data }) => {
        if (data !== 'tried') return
        const { port1, port2 } = new MessageChannel()
        port1.onmessage = resolve
        frames[0].postMessage('inlay:channel', '*', [port2])
        port1.postMessage({ type: 'look', look: { theme: 'light', canClose: true, isOpen: false, styles: {} } })
      }
      frames[1].postMessage('now', '*')
    }).then(() => undefined)`)
    const frame = page.frames().find((each) => each.url().startsWith(stranger))
    expect(await frame?.title()).toBe('')
  })

  test('cannot impersonate our frame', async () => {
    const { key } = await createKey()
    const stranger = await useSite(`<script>parent.postMessage('inlay:ready', '*')</script>`)
    const page = await usePage()
    await page.route('**/embed/**', () => undefined)
    const tag = `<inlay-agent publishable-key="${key}" display-mode="inline"></inlay-agent>`
    await page.goto(await useSite(pageWith(tag)), { waitUntil: 'commit' })
    const note = page.getByRole('status').filter({ hasText: 'Connecting…' })
    await note.waitFor()
    await page.evaluate(`new Promise((resolve) => {
      onmessage = ({ data }) => data === 'inlay:ready' && resolve()
      const frame = document.createElement('iframe')
      frame.src = '${stranger}'
      document.body.append(frame)
    })`)
    expect(await note.isVisible(), 'the element still waits for our frame').toBe(true)
  })
})

describe('the panel', () => {
  const open = (mode: string) => async () => {
    const { key } = await createKey()
    const page = await visit(
      `<button>Before</button><inlay-agent publishable-key="${key}" display-mode="${mode}"></inlay-agent>`,
    )
    await waitUntilConnected(page)
    return page
  }

  test('in pip mode opens and closes with the keyboard, and the focus follows', async () => {
    const page = await open('pip')()
    const panel = page.getByRole('region', { name: 'Agent' })
    expect(await panel.isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Before' }).focus()
    await page.keyboard.press('Tab')
    const launcher = page.getByRole('button', { name: 'Open the agent' })
    expect(await launcher.getAttribute('aria-expanded')).toBe('false')
    await page.keyboard.press('Enter')
    await panel.waitFor()
    expect(await page.getByRole('button', { name: 'Close the agent' }).getAttribute('aria-expanded')).toBe('true')
    // Before the panel has loaded, it has nothing that Tab could focus.
    await frameOf(page).getByRole('button', { name: 'Close' }).waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    await panel.waitFor({ state: 'hidden' })
    expect(await page.evaluate(`document.querySelector('inlay-agent').shadowRoot.activeElement?.ariaLabel`)).toBe(
      'Open the agent',
    )
    expect(await heard(page, 'close')).toEqual([null])
  })

  test('in fullscreen mode covers the page, and its button closes it', async () => {
    const page = await open('fullscreen')()
    await page.getByRole('button', { name: 'Open the agent' }).click()
    const panel = page.getByRole('region', { name: 'Agent' })
    await expect.poll(() => panel.boundingBox()).toEqual({ x: 0, y: 0, ...page.viewportSize() })
    await frameOf(page).getByRole('button', { name: 'Close' }).click()
    await panel.waitFor({ state: 'hidden' })
  })

  test('in inline mode is always visible, in the flow of the page', async () => {
    const page = await open('inline')()
    expect(await page.getByRole('button', { name: 'Open the agent' }).count()).toBe(0)
    expect(await frameOf(page).getByRole('button', { name: 'Close' }).count()).toBe(0)
    const { height = 0 } = (await page.getByRole('region', { name: 'Agent' }).boundingBox()) ?? {}
    const wanted = await page.evaluate('heard.findLast(({ type }) => type === "inlay-size-changed").detail.height')
    expect(Math.abs(height - Math.max(Number(wanted), 192))).toBeLessThanOrEqual(2)
  })

  test("follows the page's color scheme, or the theme that the page sets", async () => {
    const page = await open('inline')()
    const scheme = () =>
      frameOf(page)
        .locator('html')
        .evaluate((element) => element.style.colorScheme)
    await expect.poll(scheme).toBe('light')
    await page.evaluate(`document.querySelector('inlay-agent').setHostContext({ theme: 'dark' })`)
    await expect.poll(scheme).toBe('dark')
    await page.evaluate(`document.querySelector('inlay-agent').setHostContext({ theme: undefined })`)
    await expect.poll(scheme).toBe('light')
    await page.evaluate(`document.documentElement.style.colorScheme = 'light dark'`)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expect.poll(scheme).toBe('dark')
    await page.evaluate(`document.documentElement.style.colorScheme = 'light'`)
    await expect.poll(scheme).toBe('light')
  })

  test('uses colours from the page, and ignores invalid ones', async () => {
    const { key } = await createKey()
    const style = '--inlay-accent: rgb(1, 2, 3); --inlay-text: url(https://evil.example)'
    const page = await visit(
      `<inlay-agent publishable-key="${key}" display-mode="inline" style="${style}"></inlay-agent>`,
    )
    await waitUntilConnected(page)
    // The panel's script takes over the page's style once it has loaded, which may be after the connection.
    const given = () => frameOf(page).locator('html').getAttribute('style')
    await expect.poll(given).toContain('--inlay-accent: rgb(1, 2, 3)')
    expect(await given()).not.toContain('--inlay-text')
  })
})

/** Records what the element tells the frame, and lets a test speak for the frame on the real channel. */
const overhear = {
  initScript: `
    const { postMessage } = MessagePort.prototype
    window.told = []
    MessagePort.prototype.postMessage = function (message, ...rest) {
      told.push(message)
      window.channel = this
      postMessage.call(this, message, ...rest)
    }`,
}
const told = (page: Page, ...types: string[]): Promise<object[]> =>
  page.evaluate(`told.filter(({ type }) => ${JSON.stringify(types)}.includes(type))`)
const lookOf = (page: Page): Promise<object> =>
  page.evaluate(`told.findLast(({ type }) => type === 'look')?.look ?? {}`)
const agent = `document.querySelector('inlay-agent')`

async function sayInFrame(page: Page, message: object): Promise<void> {
  const frame = page.frames().find((each) => each.url().includes('/embed/'))
  await frame?.evaluate(`channel.postMessage(${JSON.stringify(message)})`)
}

describe('the page', () => {
  const openPage = async (attributes = '', options: PageOptions = {}) => {
    const { key } = await createKey()
    const tag = `<button>Before</button><inlay-agent publishable-key="${key}" ${attributes}></inlay-agent>`
    const page = await visit(tag, '', { ...overhear, ...options })
    await waitUntilConnected(page)
    return page
  }
  const panelOf = (page: Page) => page.getByRole('region', { name: 'Agent' })
  const focused = (page: Page): Promise<string> =>
    page.evaluate(`(${agent}.shadowRoot.activeElement ?? document.activeElement).localName`)

  test('opens the panel by a call, which moves the focus, or by setting open, which leaves it', async () => {
    const page = await openPage()
    await page.getByRole('button', { name: 'Before' }).focus()
    await page.evaluate(`${agent}.open = true`)
    await panelOf(page).waitFor()
    expect([await focused(page), await page.evaluate(`${agent}.isOpen`)]).toEqual(['button', true])
    await page.evaluate(`${agent}.open()`)
    expect(await focused(page)).toBe('iframe')
  })

  test('closes the panel once, and takes the focus only from the panel', async () => {
    const page = await openPage('open')
    await page.getByRole('button', { name: 'Before' }).focus()
    await page.evaluate(`${agent}.close()`)
    await panelOf(page).waitFor({ state: 'hidden' })
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Before')
    await page.evaluate(`${agent}.close()`)
    expect(await heard(page, 'close')).toEqual([null])
    await page.evaluate(`${agent}.open()`)
    await page.evaluate(`${agent}.close()`)
    expect(await page.evaluate(`${agent}.shadowRoot.activeElement?.ariaLabel`)).toBe('Open the agent')
  })

  test('sends messages and starts conversations, in order, also before the frame is ready', async () => {
    const { key } = await createKey()
    const page = await visit('<inlay-agent></inlay-agent>', '', overhear)
    await page.evaluate(`${agent}.send('First'), ${agent}.newThread(), ${agent}.send('Second')`)
    await panelOf(page).waitFor()
    expect(await told(page, 'send', 'new-thread')).toEqual([])
    await page.evaluate(`${agent}.connect({ publishableKey: '${key}' })`)
    await waitUntilConnected(page)
    await page.evaluate(`${agent}.send('Third')`)
    expect(await told(page, 'send', 'new-thread')).toEqual([
      { type: 'send', text: 'First' },
      { type: 'new-thread' },
      { type: 'send', text: 'Second' },
      { type: 'send', text: 'Third' },
    ])
  })

  test('sends nothing that waited before it disconnected', async () => {
    const { key } = await createKey()
    const page = await visit('<inlay-agent></inlay-agent>', '', overhear)
    await page.evaluate(`${agent}.send('Too late'), ${agent}.disconnect()`)
    await page.evaluate(`${agent}.connect({ publishableKey: '${key}' }), ${agent}.send('In time')`)
    await waitUntilConnected(page)
    expect(await told(page, 'send')).toEqual([{ type: 'send', text: 'In time' }])
  })

  test.each([
    ['an empty text', `''`],
    ['blanks', `'   '`],
    ['an event in place of a text', `new Event('click')`],
    ['a text that is too long', `'x'.repeat(${maxChatMessageLength + 1})`],
  ])('cannot send %s', async (_, text) => {
    const page = await openPage()
    const thrown = `(() => { try { ${agent}.send(${text}) } catch (error) { return String(error) } })()`
    expect(await page.evaluate(thrown)).toBe(
      `RangeError: send needs a text of 1 to ${maxChatMessageLength} characters.`,
    )
    expect(await told(page, 'send')).toEqual([])
    expect(await page.evaluate(`${agent}.isOpen`)).toBe(false)
    await page.evaluate(`${agent}.send('x'.repeat(${maxChatMessageLength}))`)
    expect(await told(page, 'send')).toHaveLength(1)
  })

  test('cannot let more than 20 messages wait for the frame', async () => {
    const page = await visit('<inlay-agent></inlay-agent>')
    const sendMany = `(() => {
      let sent = 0
      try { for (; sent < 30; sent++) ${agent}.send('Hello') } catch (error) { return [sent, String(error)] }
    })()`
    const reason = 'RangeError: Too many requests are waiting for the agent.'
    expect(await page.evaluate(sendMany)).toEqual([20, reason])
  })

  test('learns about messages and about calls of its own tools', async () => {
    const page = await openPage()
    const message = { role: 'assistant', threadId: 'thread', messageId: 'message' }
    const call = { callId: 'call', tool: 'add_to_cart', state: 'done' }
    await sayInFrame(page, { type: 'message', ...message })
    await sayInFrame(page, { type: 'tool-call', ...call })
    await expect.poll(() => heard(page, 'message')).toEqual([message])
    await expect.poll(() => heard(page, 'tool-call')).toEqual([call])
  })

  test('sets title, greeting and language', async () => {
    const page = await openPage('agent-title="Ask Pen" greeting="Hello!" language="de-AT"')
    expect(await lookOf(page)).toMatchObject({ title: 'Ask Pen', greeting: 'Hello!', language: 'de-AT' })
    await page.getByRole('button', { name: 'Agent öffnen' }).click()
    await page.getByRole('region', { name: 'Ask Pen' }).waitFor()
    expect(await page.locator('inlay-agent iframe').getAttribute('title')).toBe('Ask Pen')
    await page.evaluate(`${agent}.setAttribute('agent-title', 'Ask Ink'), ${agent}.removeAttribute('greeting')`)
    await page.getByRole('region', { name: 'Ask Ink' }).waitFor()
    const look = await lookOf(page)
    expect(look).toMatchObject({ title: 'Ask Ink' })
    expect(look).not.toHaveProperty('greeting')
  })

  test('has its own language followed, and can replace texts', async () => {
    const page = await openPage()
    expect(await lookOf(page)).toMatchObject({ language: 'en', strings: {} })
    await page.evaluate(`document.documentElement.lang = 'de'`)
    await page.getByRole('button', { name: 'Agent öffnen' }).waitFor()
    await expect.poll(() => lookOf(page)).toMatchObject({ language: 'de' })
    await page.evaluate(`${agent}.setHostContext({ strings: { openAgent: 'Frag uns' } })`)
    await page.getByRole('button', { name: 'Frag uns' }).waitFor()
    expect(await lookOf(page)).toMatchObject({ strings: { openAgent: 'Frag uns' } })
    await page.evaluate(`${agent}.setHostContext({ theme: 'dark' })`)
    await expect.poll(() => lookOf(page)).toMatchObject({ theme: 'dark', strings: { openAgent: 'Frag uns' } })
  })

  test('passes its font and the documented properties to the frame', async () => {
    const names = ['accent', 'on-accent', 'background', 'text', 'muted', 'line', 'radius', 'mono']
    const given = Object.fromEntries(names.map((name, index) => [name, `${index}px`]))
    const properties = names.map((name) => `--inlay-${name}: ${given[name]}`).join('; ')
    const page = await openPage(`style="font-family: Georgia, serif; --inlay-other: 1px; ${properties}"`)
    expect(await lookOf(page)).toMatchObject({ styles: { ...given, font: 'Georgia, serif' } })
    expect(await lookOf(page)).not.toHaveProperty('styles.other')
    await page.evaluate(`${agent}.style.setProperty('--inlay-font', 'Arial'), ${agent}.setHostContext({})`)
    expect(await lookOf(page)).toMatchObject({ styles: { font: 'Arial' } })
  })
})

describe('launcher and panel', () => {
  const openPage = async (attributes = '', options: PageOptions = {}, head = '') => {
    const { key } = await createKey()
    const page = await visit(`<inlay-agent publishable-key="${key}" ${attributes}></inlay-agent>`, head, {
      reducedMotion: 'reduce',
      ...overhear,
      ...options,
    })
    await waitUntilConnected(page)
    return page
  }
  const boxOf = async (page: Page, part: string) => {
    const box = await page.locator(`inlay-agent .${part}`).boundingBox()
    if (!box) throw new Error(`${part} isn't visible`)
    return box
  }
  const styleOf = (page: Page, part: string, property: string): Promise<string> =>
    page.evaluate(`getComputedStyle(${agent}.shadowRoot.querySelector('.${part}'))['${property}']`)

  test.each([
    ['at the right', '', 'ltr', 'right'],
    ['at the right of a page from right to left', '', 'rtl', 'right'],
    ['at the left', 'bottom-left', 'ltr', 'left'],
    ['where lines end', 'bottom-end', 'ltr', 'right'],
    ['where lines end, from right to left', 'bottom-end', 'rtl', 'left'],
    ['where lines start', 'bottom-start', 'ltr', 'left'],
    ['where lines start, from right to left', 'bottom-start', 'rtl', 'right'],
    ['at the right if the position does not exist', 'top-left', 'ltr', 'right'],
  ])('are %s', async (_, position, direction, side) => {
    const page = await openPage(`open position="${position}" style="direction: ${direction}"`)
    const left = { launcher: 20, panel: 20 }
    const right = { launcher: 1280 - 20 - 52, panel: 1280 - 20 - 400 }
    const { x: launcher } = await boxOf(page, 'launcher')
    const { x: panel } = await boxOf(page, 'panel')
    expect({ launcher, panel }).toEqual(side === 'left' ? left : right)
  })

  test('have the same size on a page with another font size, and a size of the page’s choice', async () => {
    const viewport = { width: 1280, height: 900 }
    const page = await openPage('open', { viewport }, '<style nonce="ours">html { font-size: 62.5% }</style>')
    expect(await boxOf(page, 'panel')).toMatchObject({ width: 400, height: 640 })
    expect(await boxOf(page, 'launcher')).toMatchObject({ width: 52, height: 52 })
    await page.evaluate(`${agent}.style.cssText = '--inlay-width: 500px; --inlay-height: 300px'`)
    expect(await boxOf(page, 'panel')).toMatchObject({ width: 500, height: 300 })
  })

  test('fill a low screen', async () => {
    const page = await openPage('open', { viewport: { width: 800, height: 320 } })
    const { y, height } = await boxOf(page, 'panel')
    expect([y, y + height]).toEqual([8, 320])
  })

  test('on a phone: the panel fills the screen, and what the keyboard leaves of it', async () => {
    const viewport = { width: 390, height: 844 }
    const page = await openPage('open position="bottom-left"', { viewport })
    expect(await boxOf(page, 'panel')).toEqual({ x: 0, y: 8, width: 390, height: 836 })
    expect(await page.locator('inlay-agent .launcher').isVisible(), 'the frame has the button to close').toBe(false)
    // Chromium has no keyboard that a test could open.
    await page.evaluate(`(() => {
      Object.defineProperties(visualViewport, { height: { value: 500 }, offsetTop: { value: 40 } })
      visualViewport.dispatchEvent(new Event('resize'))
    })()`)
    expect(await boxOf(page, 'panel')).toEqual({ x: 0, y: 48, width: 390, height: 492 })
    await page.evaluate(`(() => {
      Object.defineProperties(visualViewport, { scale: { value: 2 } })
      visualViewport.dispatchEvent(new Event('resize'))
    })()`)
    expect(await boxOf(page, 'panel'), 'while zoomed').toEqual({ x: 0, y: 8, width: 390, height: 836 })
  })

  test.each(['pip', 'fullscreen'])('in %s mode on a phone: a panel without its frame can be closed', async (mode) => {
    const tag = `<inlay-agent display-mode="${mode}" open></inlay-agent>`
    const page = await visit(tag, '', { viewport: { width: 390, height: 844 } })
    await page.getByText("The assistant isn't connected right now.").waitFor()
    await page.getByRole('button', { name: 'Close the agent' }).click()
    await page.getByText("The assistant isn't connected right now.").waitFor({ state: 'hidden' })
  })

  test('show a dot with a name for news', async () => {
    const page = await openPage()
    await sayInFrame(page, { type: 'signs', signs: { badge: '•', marker: '' } })
    await page.getByRole('button', { name: 'Open the agent: new activity' }).waitFor()
    expect(await boxOf(page, 'badge')).toMatchObject({ width: 12, height: 12 })
    await sayInFrame(page, { type: 'signs', signs: { badge: '3', marker: '' } })
    await page.getByRole('button', { name: 'Open the agent: 3 waiting for approval' }).waitFor()
    expect((await boxOf(page, 'badge')).width).toBeGreaterThanOrEqual(20)
    await sayInFrame(page, { type: 'signs', signs: { badge: '', marker: '' } })
    await page.locator('inlay-agent .badge').waitFor({ state: 'hidden' })
  })

  const verdigris = 'rgb(11, 107, 92)'
  const brass = 'rgb(220, 178, 90)'
  test.each([
    ['verdigris with a brass mark', 'light', '', verdigris, brass],
    ['light verdigris with a dark mark', 'dark', '', 'rgb(63, 199, 174)', 'rgb(6, 35, 30)'],
    [
      'the page’s accent with a white mark',
      'light',
      '--inlay-accent: rgb(1, 2, 3)',
      'rgb(1, 2, 3)',
      'rgb(255, 255, 255)',
    ],
    [
      'the page’s own pair',
      'light',
      '--inlay-accent: red; --inlay-on-accent: blue',
      'rgb(255, 0, 0)',
      'rgb(0, 0, 255)',
    ],
  ])('are %s', async (_, colorScheme, style, background, fill) => {
    const page = await openPage(`style="color-scheme: ${colorScheme}; ${style}"`)
    expect(await styleOf(page, 'launcher', 'backgroundColor')).toBe(background)
    expect(await styleOf(page, 'mark', 'fill')).toBe(fill)
  })

  test('stay visible in forced colors, and do not move for users who prefer no motion', async () => {
    const page = await openPage('', { forcedColors: 'active', reducedMotion: 'no-preference' })
    const buttonText = await page.evaluate(`(() => {
      document.body.style.cssText = 'forced-color-adjust: none; color: ButtonText'
      return getComputedStyle(document.body).color
    })()`)
    expect(await styleOf(page, 'mark', 'fill')).toBe(buttonText)
    expect(await styleOf(page, 'panel', 'transitionDuration')).toContain('0.15s')
    await page.emulateMedia({ reducedMotion: 'reduce' })
    expect(await styleOf(page, 'panel', 'transitionDuration')).toBe('0s')
  })
})
