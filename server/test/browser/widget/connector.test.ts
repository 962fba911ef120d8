import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  clickChoice,
  confirmBrowser,
  frameOf,
  openActivity,
  type ShopService,
  startShop,
  useAssistant,
  visitShop,
  waitForQuestion,
} from './shop.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

test('a user with the widget open can use the company’s tool server without signing in there', async () => {
  await visitShop(app.shopUrl, 'Demo Member')
  const assistant = await useAssistant(app, 'member@demo.test')
  const { content, isError } = await assistant.use('orders.list_orders')
  expect(isError ?? false).toBe(false)
  expect(JSON.parse((content[0] as { text: string }).text)).toEqual({
    orders: [
      { id: '1041', item: 'Enamel mug', status: 'shipped' },
      { id: '1042', item: 'Wool blanket', status: 'open' },
    ],
  })
})

test('a user without it is told to open it', async () => {
  const assistant = await useAssistant(app, 'admin@demo.test')
  const { content, isError } = await assistant.use('orders.list_orders')
  expect(isError).toBe(true)
  expect(JSON.stringify(content)).toContain('Open a page with the widget')
})

/** Types of the messages on the page's own socket. It may also get the user's recent calls, at any time. */
const heard = async (page: Page): Promise<string[]> =>
  ((await page.evaluate('window.heard')) as string[]).filter((type) => type !== 'calls/recent')

describe('a tool at a tool server that changes something', () => {
  const question = (page: Page) => frameOf(page).getByRole('alertdialog', { name: 'Allow “orders: Cancel an order”?' })
  const answer = (page: Page, name: string) => clickChoice(question(page).getByRole('button', { name }))
  const cancelOrder = (order: string) => ['orders.cancel_order', { order }] as const
  const text = ({ content }: { content: unknown[] }) => (content[0] as { text: string }).text

  async function visit() {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const assistant = await useAssistant(app, 'member@demo.test')
    await expect.poll(assistant.toolCounts).toEqual([3])
    const asking = assistant.use(...cancelOrder('none'))
    await question(page).getByText('First confirm once that this browser is yours').waitFor()
    expect(await question(page).getByLabel('Input of the call').count(), 'the input is still hidden').toBe(0)
    await confirmBrowser(page)
    await question(page).getByLabel('Input of the call').getByText('none').waitFor()
    await answer(page, 'Decline')
    await asking
    return { page, assistant }
  }

  test('asks in the open page, and runs once allowed', async () => {
    const { page, assistant } = await visit()
    const declined = assistant.use(...cancelOrder('1042'))
    await question(page).getByText('wants to use the tool orders.cancel_order on your organization’s server').waitFor()
    expect(await question(page).getByLabel('Input of the call').innerText()).toBe('{\n  "order": "1042"\n}')
    await answer(page, 'Decline')
    expect(await declined).toMatchObject({ isError: true })
    expect(text(await assistant.use('orders.list_orders'))).toContain('"Wool blanket","status":"open"')

    const allowed = assistant.use(...cancelOrder('1042'))
    await answer(page, 'Allow once')
    expect((await allowed).isError ?? false).toBe(false)
    expect(text(await assistant.use('orders.list_orders'))).toContain('"Wool blanket","status":"cancelled"')
    await openActivity(page)
    const calls = frameOf(page).getByRole('list', { name: 'Calls' })
    const rows = () => calls.locator('> li').allInnerTexts()
    const ends = ['Declined', 'Declined', 'Allowed'].map((end) => expect.stringContaining(end))
    await expect.poll(rows).toEqual(ends)
  })

  test('can be allowed until the user leaves the page, and the permission can be revoked', async () => {
    const { page, assistant } = await visit()
    const first = assistant.use(...cancelOrder('1041'))
    await waitForQuestion(page)
    await question(page).getByText('More options').click()
    await answer(page, 'Always allow here')
    const shipped = '{"cancelled":false}'
    expect(text(await first)).toBe(shipped)
    expect(text(await assistant.use(...cancelOrder('1041'))), 'without asking').toBe(shipped)
    const frame = frameOf(page)
    await openActivity(page)
    await frame.getByText('1 standing permission').click()
    await frame.getByRole('button', { name: 'Revoke “orders: Cancel an order”' }).click()
    const third = assistant.use(...cancelOrder('1041'))
    await answer(page, 'Decline')
    expect(await third).toMatchObject({ isError: true })
  })

  test('asks in the next tab when the first one closes, and is refused without any', async () => {
    const { page, assistant } = await visit()
    const other = await page.context().newPage()
    await other.goto(app.shopUrl)
    await expect.poll(assistant.toolCounts).toEqual([3, 3])
    await other.bringToFront()
    const asking = assistant.use(...cancelOrder('1041'))
    const pages = [page, other]
    const askedIn = async () => {
      const visible = await Promise.all(pages.map((each) => question(each).isVisible()))
      return visible.indexOf(true)
    }
    await expect.poll(askedIn).toBeGreaterThanOrEqual(0)
    const [asked] = pages.splice(await askedIn(), 1)
    await asked?.close()
    await question(pages[0] as Page).waitFor()
    await pages[0]?.close()
    const refused = await asking
    expect(JSON.parse(text(refused))).toMatchObject({ code: 'APPROVAL_NEEDED', data: { pages: [app.shopUrl] } })
  })

  test('cannot be allowed by the page around the frame, not even with its own socket', async () => {
    const { page, assistant } = await visit()
    const frame = new URL(
      page
        .frames()
        .find((each) => each.url().includes('/embed/'))
        ?.url() ?? '',
    )
    const socket = { key: frame.searchParams.get('key'), origin: frame.origin }
    const ready = await page.evaluate(`(async ({ key, origin }) => {
      const { idToken } = await (await fetch('/session')).json()
      const body = JSON.stringify({ publishable_key: key, id_token: idToken })
      const headers = { 'content-type': 'application/json' }
      const { ticket } = await (await fetch(origin + '/api/auth/pk-ticket', { method: 'POST', headers, body })).json()
      const socket = new WebSocket(origin.replace('http', 'ws') + '/runtime', ['inlay.v1', 'inlay.ticket.' + ticket])
      socket.onopen = () => socket.send(JSON.stringify({ type: 'hello', tab_id: 'script', url: location.href, title: '', visible: true }))
      window.heard = []
      return new Promise((resolve) => {
        socket.onmessage = ({ data }) => {
          window.heard.push(JSON.parse(data).type)
          resolve(window.heard[0])
        }
        socket.onclose = ({ code, reason }) => resolve(code + reason)
      })
    })(${JSON.stringify(socket)})`)
    expect(ready).toBe('ready')
    const asking = assistant.use(...cancelOrder('1041'))
    await question(page).waitFor()
    expect(await heard(page)).toEqual(['ready'])
    await answer(page, 'Decline')
    expect(await asking).toMatchObject({ isError: true })
    await frameOf(page).getByRole('button', { name: 'Close' }).click()
    await page.evaluate(`document.querySelector('inlay-agent').disconnect()`)
    await expect
      .poll(async () => JSON.stringify(await assistant.use(...cancelOrder('1041'))))
      .toContain('APPROVAL_NEEDED')
    expect(await heard(page)).toEqual(['ready'])
  })
})
