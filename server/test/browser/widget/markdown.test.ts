import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { bundleMarkdownPage } from '../../../../widget/test/markdown-page.ts'
import { type PageOptions, usePage, useSite } from '../chromium.ts'

let html: string
beforeAll(async () => {
  html = await bundleMarkdownPage()
})

async function visit(options?: PageOptions): Promise<Page> {
  const page = await usePage(options)
  await page.goto(await useSite(html))
  return page
}

const show = (page: Page, text: string, isStreaming = false) =>
  page.evaluate(([written, isOpen]) => (globalThis as never as { show: Show }).show(written, isOpen), [
    text,
    isStreaming,
  ] as const)
type Show = (text: string, isStreaming: boolean) => void

test('the Copy button copies the code, and says so for a moment', async () => {
  const page = await visit({ permissions: ['clipboard-read', 'clipboard-write'] })
  await show(page, 'Run this:\n\n```sh\nnpm start\n```')
  await page.getByRole('button', { name: 'Copy' }).click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('npm start')
  await page.getByRole('button', { name: 'Copy', exact: true }).waitFor()
})

test('the Copy button also works where the clipboard is closed to the frame', async () => {
  const page = await visit({ initScript: "navigator.clipboard.writeText = async () => { throw new Error('closed') }" })
  await show(page, '```\nnpm start\n```\n\nEnd')
  await page.evaluate("document.addEventListener('copy', () => { window.copied = String(getSelection()) })")
  await page.getByRole('button', { name: 'Copy' }).click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  expect(await page.evaluate('window.copied')).toBe('npm start')
})

test('elements stay while text is appended, so that a selection and the scroll position survive', async () => {
  const page = await visit()
  const text = '# One\n\n- a\n- b\n\n```js\nlet a = 1\n```\n\nThe **end** of it.'
  await show(page, text.slice(0, 20), true)
  await page.evaluate("window.kept = [...document.querySelectorAll('h3, li')]")
  for (let length = 20; length <= text.length; length++) await show(page, text.slice(0, length), true)
  await show(page, text)
  expect(await page.evaluate('window.kept.length > 1 && window.kept.every((element) => element.isConnected)')).toBe(
    true,
  )
  expect(await page.getByRole('main').innerText()).toMatch(/^One\s+a\s+b\s+js\s+Copy\s+let a = 1\s+The end of it\.$/)
})

test('headings never skip a level, although the agent does', async () => {
  const page = await visit()
  const levels = () =>
    page.evaluate("[...document.querySelectorAll('h3, h4, h5, h6')].map((each) => Number(each.ariaLevel))")
  await show(page, '### A\n\n###### B\n\n> #### C\n\n# D\n\n### E\n\n## F', true)
  expect(await levels()).toEqual([3, 4, 4, 3, 4, 4])
  await show(page, '### A\n\n###### B\n\n> #### C\n\n# D\n\n### E\n\n## F\n\n###### G')
  expect(await levels()).toEqual([3, 4, 4, 3, 4, 4, 5])
})

test('nothing of a hostile text is loaded or executed', async () => {
  const page = await visit()
  const requests: string[] = []
  const violations: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  page.on('console', (message) => violations.push(message.text()))
  await show(
    page,
    '<img src="http://localhost:1/a" onerror="document.title = 1">\n\n![b](http://localhost:1/b)\n\n<script>document.title = 1</script>\n\n[c](javascript:document.title=1)\n\n<svg onload="document.title = 1">\n\n<style>main { display: none }</style>',
  )
  await page.getByRole('link', { name: 'b (localhost:1)' }).waitFor()
  expect(await page.getByRole('link').count()).toBe(1)
  expect(await page.locator('main :is(img, script, svg, style, iframe)').count()).toBe(0)
  expect(await page.title()).toBe('Markdown')
  expect([...requests, ...violations]).toEqual([])
})

test('wide tables and code scroll inside their own box at 320 pixels', async () => {
  const page = await visit({ viewport: { width: 320, height: 640 } })
  const columns = Array.from({ length: 12 }, (_, index) => `column${index}`)
  await show(
    page,
    `|${columns.join('|')}|\n|${'-|'.repeat(12)}\n|${'cell|'.repeat(12)}\n\n\`\`\`\n${'x'.repeat(200)}\n\`\`\`\n\n${'y'.repeat(200)}`,
  )
  const widths = await page.evaluate(
    "[document.documentElement, ...document.querySelectorAll('.md-scroll')].map((element) => element.scrollWidth > element.clientWidth)",
  )
  expect(widths).toEqual([false, true, true])
})

test('a list or quote in a right-to-left language starts on the right', async () => {
  const page = await visit()
  await show(page, '- قائمة\n- **ثانية**\n\n> اقتباس\n\n- list\n\n> quote')
  const directions = await page.evaluate(
    "[...document.querySelectorAll('ul, blockquote')].map((element) => getComputedStyle(element).direction)",
  )
  expect(directions).toEqual(['rtl', 'rtl', 'ltr', 'ltr'])
})
