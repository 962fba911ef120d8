import { expect, onTestFinished, test } from 'vitest'
import { openChat } from '../../test/chat.ts'
import { startDelegation } from '../../test/delegation.ts'
import { useScriptedModel } from '../../test/scripted-model.ts'

test('a call that the model asks for after the key was revoked is not made', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const model = await useScriptedModel(() => ({ text: ['Wait', promise], calls: [{ name: 'crm_whoami', args: {} }] }))
  const org = await startDelegation({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  onTestFinished(() => org.close())
  await org.addConnector()
  const chat = openChat(await org.page())
  const run = await chat.say('Who am I?')
  await chat.until(run, ({ texts }) => texts[0] === 'Wait')
  const { keys } = (await org.asAdmin('GET', '/publishable-keys')).body
  for (const { id } of keys) await org.asAdmin('DELETE', `/publishable-keys/${id}`)
  resolve()
  const read = async () => {
    const [row] = await org.service.database.asOrg(
      await org.organization('demo'),
      (sql) => sql<{ error: { code: string } | null; state: string }>`
        select runs.error, tool_calls.state from runs left join tool_calls on run_id = runs.id where runs.id = ${run}`,
    )
    return row
  }
  await expect.poll(read).toMatchObject({ error: { code: 'ACCESS_ENDED' }, state: 'cancelled' })
})
