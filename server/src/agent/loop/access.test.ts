import { expect, onTestFinished, test } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { startDelegation } from '../../../test/delegation.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'

/** A run whose model has written one word. */
async function startRun() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const model = await useScriptedModel(() => ({ text: ['Wait', promise], calls: [{ name: 'crm_whoami', args: {} }] }))
  const org = await startDelegation({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  onTestFinished(() => org.close())
  await org.addConnector()
  const chat = openChat(await org.page())
  const run = await chat.say('Who am I?')
  await chat.until(run, ({ texts }) => texts[0] === 'Wait')
  const demo = await org.organization('demo')
  const read = async () => {
    const [row] = await org.service.database.asOrg(
      demo,
      (sql) => sql<{ error: { code: string } | null; text: string; state: string | null; settled_at: Date | null }>`
        select runs.error, steps.text, tool_calls.state, model_calls.settled_at
        from runs join steps on steps.run_id = runs.id join model_calls on model_calls.run_id = runs.id
          left join tool_calls on tool_calls.run_id = runs.id
        where runs.id = ${run}`,
    )
    return row
  }
  return { org, demo, model, read, goOn: resolve }
}

test('a run of a page ends at once when its key is revoked, and the model is no longer asked', async () => {
  const { org, model, read } = await startRun()
  const { keys } = (await org.asAdmin('GET', '/publishable-keys')).body
  for (const { id } of keys) await org.asAdmin('DELETE', `/publishable-keys/${id}`)
  const error = { code: 'ACCESS_ENDED' }
  await expect.poll(read).toMatchObject({ error, text: 'Wait', state: null, settled_at: expect.anything() })
  expect(model.aborted()).toBe(1)
})

test('a call that the model asks for after the key was revoked is not made, even if no message announced it', async () => {
  const { org, demo, read, goOn } = await startRun()
  await org.service.database.asOrg(demo, (sql) => sql`update publishable_keys set revoked_at = now()`)
  goOn()
  await expect.poll(read).toMatchObject({ error: { code: 'ACCESS_ENDED' }, state: 'cancelled' })
})
