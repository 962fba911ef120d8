import { afterAll, beforeAll, test } from 'vitest'
import type { ChatSite } from './chat-site.ts'
import { converse, startEquippedSite } from './conversation.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startEquippedSite()
})
afterAll(() => site.close())

/** The mode pip is in chat.test.ts. */
test.each(['inline', 'fullscreen'] as const)('a whole conversation in %s mode', (mode) => converse(site, mode))
