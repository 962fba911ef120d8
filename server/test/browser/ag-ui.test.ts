import { expect, onTestFinished, test } from 'vitest'
import { startHttpService } from '../http-server.ts'
import { startTestProvider } from '../oidc-provider.ts'
import { readSnippets } from '../snippets.ts'
import { usePage, useSite } from './chromium.ts'
import { press } from './visit.ts'

async function openChat(fill: (html: string) => string) {
  const [chat] = readSnippets('docs/agent.md').filter(({ language }) => language === 'html')
  const page = await usePage()
  await page.goto(await useSite(fill(chat?.text ?? '')))
  return {
    async say(text: string) {
      await page.getByRole('textbox').fill(text)
      await press(page, 'Send')
    },
    text: () => page.locator('pre').textContent(),
  }
}

test('the chat in docs/agent.md works on a page of another origin', async () => {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await app.request('PATCH', '/identity-providers/config', { token, body: trust })
  const { body: key } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Chat' } })

  const idToken = await provider.idToken({ sub: 'ann' })
  const chat = await openChat((html) =>
    html
      .replace('http://localhost:8787', app.url)
      .replace('pk_your_key', key.key)
      .replace('your-users-id-token', idToken),
  )
  await chat.say('What can you do?')
  await expect.poll(chat.text).toMatch(/demo/)
})

test('without an ID token, it shows why a visitor can’t write, and then continues their thread', async () => {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body: key } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Chat' } })
  const chat = await openChat((html) =>
    html
      .replace('http://localhost:8787', app.url)
      .replace("'pk_your_key', id_token: 'your-users-id-token'", `'${key.key}'`),
  )
  await chat.say('What can you do?')
  await expect.poll(chat.text).toMatch(/sign in/i)
  await app.request('PATCH', '/agent/config', { token, body: { anonymous: { is_enabled: true } } })
  const answer = /I'm Inlay's demo model/g
  for (const count of [1, 2]) {
    await chat.say('What can you do?')
    await expect.poll(async () => (await chat.text())?.match(answer)?.length).toBe(count)
  }
})
