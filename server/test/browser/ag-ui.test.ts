import { expect, onTestFinished, test } from 'vitest'
import { startHttpService } from '../http-server.ts'
import { startTestProvider } from '../oidc-provider.ts'
import { readSnippets } from '../snippets.ts'
import { usePage, useSite } from './chromium.ts'
import { press } from './visit.ts'

test('the chat in docs/agent.md works on a page of another origin', async () => {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await app.request('PATCH', '/identity-providers/config', { token, body: trust })
  const { body: key } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Chat' } })

  const [chat] = readSnippets('docs/agent.md').filter(({ language }) => language === 'html')
  const html = chat?.text
    .replace('http://localhost:8787', app.url)
    .replace('pk_your_key', key.key)
    .replace('your-users-id-token', await provider.idToken({ sub: 'ann' }))
  const page = await usePage()
  await page.goto(await useSite(html ?? ''))
  await page.getByRole('textbox').fill('What can you do?')
  await press(page, 'Send')
  await expect.poll(() => page.locator('pre').textContent()).toMatch(/demo/)
})
