import { addExchange, addMessage, startThread } from '../../../test/conversation-rows.ts'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import { endUser } from '../../visitors/end-users/samples.ts'
import type * as contract from './contract.ts'

const thread = (app: TestService, slug: Slug) =>
  asOrg(app, slug, async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await addMessage(sql, id)
    const run = { steps: [{ text: 'sample', calls: [{ args: { id: 1 }, result: 'sample' }] }], modelCalls: [{}] }
    const { runId } = await addExchange(sql, id, {}, run)
    await sql`
      insert into feedback (organization_id, run_id, thread_id, rating, comment)
      values (current_organization(), ${runId}, ${id}, 'up', 'sample')`
    await sql`
      insert into step_texts (organization_id, run_id, step, n, text)
      select organization_id, run_id, step, 0, 'sample' from steps where run_id = ${runId}`
    return { id, runId }
  })

const visibleThread = async (app: TestService, slug: Slug) => {
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into agent_settings
        (organization_id, name, greeting, starter_prompts, instructions, models, are_contents_visible)
      values (current_organization(), 'sample', '', '{}', '', '[]', true)
      on conflict (organization_id) do update set are_contents_visible = true`,
  )
  return thread(app, slug)
}

export const fillTables = thread

export const operationSamples: OperationSamples<typeof contract> = {
  listThreads: {},
  listEndUserThreads: { prepare: endUser },
  getThreadAnalytics: {},
  getThread: { prepare: thread },
  updateThread: { prepare: thread, body: () => ({ title: 'Renamed' }) },
  listThreadMessages: { prepare: thread },
  exportThread: { prepare: visibleThread },
  listFeedback: { prepare: thread },
  updateFeedback: {
    prepare: async (app, slug) => ({ id: (await thread(app, slug)).runId }),
    body: () => ({ reviewed: true }),
  },
}
