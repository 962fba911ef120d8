import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output, TextDocument } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { fail } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { areContentsVisible, selectSettings } from '../settings/settings.ts'
import { contentErrors, type exportThread as contract } from './contract.ts'
import { describeMessage, describeThread } from './markdown.ts'
import { type FoundMessage, isOwnPreview, selectMessages } from './messages.ts'
import { selectThread } from './threads.ts'

/** Few, because results are complete and can be long. */
const messagesAtOnce = 10

export async function exportThread(
  { database }: Service,
  caller: OrgCaller,
  { id, format }: Input<typeof contract>,
): Promise<TextDocument> {
  const organizationId = caller.organization.id
  const { thread, agentName } = await database.asOrg(organizationId, async (sql) => {
    const thread = await selectThread(sql, id)
    const isOwn = await isOwnPreview(sql, caller, id)
    if (!isOwn && !(await areContentsVisible(sql))) {
      throw fail(contentErrors.CONTENTS_NOT_VISIBLE, 'CONTENTS_NOT_VISIBLE')
    }
    const { name } = await selectSettings(sql)
    if (!isOwn) await recordAudit(sql, trailOf(caller), 'thread.contents_read', id, { export: format })
    return { thread, agentName: name }
  })

  async function* readMessages(): AsyncGenerator<FoundMessage> {
    const wanted = { limit: messagesAtOnce, withReplaced: false, withContents: true, maxResultLength: null }
    for (let after = 0; ; ) {
      const page = await database.asOrg(organizationId, (sql) => selectMessages(sql, id, { ...wanted, after }))
      yield* page
      if (page.length < messagesAtOnce) return
      after = page.at(-1)?.position ?? after
    }
  }

  return format === 'json'
    ? { contentType: 'application/json', parts: writeJson(thread, readMessages()) }
    : { contentType: 'text/markdown; charset=utf-8', parts: writeMarkdown(thread, agentName, readMessages()) }
}

type Thread = Output<typeof contract>['thread']

/** Writes the response of the contract, message by message. */
async function* writeJson(thread: Thread, messages: AsyncIterable<FoundMessage>): AsyncGenerator<string> {
  yield `{"thread":${JSON.stringify(thread)},"messages":[`
  let separator = ''
  for await (const { message } of messages) {
    yield separator + JSON.stringify(message)
    separator = ','
  }
  yield ']}'
}

async function* writeMarkdown(
  thread: Thread,
  agentName: string,
  messages: AsyncIterable<FoundMessage>,
): AsyncGenerator<string> {
  yield describeThread(thread)
  for await (const found of messages) yield describeMessage(found, agentName)
}
