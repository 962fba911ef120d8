import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { ToolEntryPart } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useSession, useTexts } from '../context.ts'
import type { StringKey, Texts } from '../strings.ts'
import { type ArgumentField, type Checked, checkField, describeFields, isReadable } from './argument-fields.ts'
import { ArgumentForm } from './argument-form.tsx'
import { Choices } from './choices.tsx'
import { ConfirmBrowser, useConfirming } from './confirm-browser.tsx'
import { ExactInput } from './exact-input.tsx'
import { useGuard } from './guard.ts'

export const titleOf = ({ title, name }: ToolEntryPart): string => plainText(title || name, 120)

interface ApprovalProps {
  part: ToolEntryPart
  /** Where this question stands among those that wait. */
  place: number
  total: number
  isShown: boolean
  agentName: string
}

/** Asks in the conversation whether the agent may call a tool, with arguments that the user can change. */
export function Approval({ part, place, total, isShown, agentName }: ApprovalProps): JSX.Element {
  const session = useSession()
  const texts = useTexts()
  const { say } = texts
  const section = useRef<HTMLElement>(null)
  const guard = useGuard(part.callId, isShown, section)
  const [isRaw, setIsRaw] = useState(false)
  const [changed, setChanged] = useState<ReadonlyMap<string, string>>(new Map())
  const fields = describeFields(part.inputSchema, part.input)
  const canEdit = fields.length > 0 && isReadable(fields)
  const checks = checkAll(fields, changed)
  const isValid = [...checks.values()].every((check) => !('error' in check))
  const edited = collect(checks)
  const isEdited = canEdit && JSON.stringify(edited) !== JSON.stringify(inOrder(part.input, fields))
  const label = `approval-${part.callId}`
  const reason = explainReason(part, texts)
  const standing = findStanding(part, texts)
  const { isConfirmed } = useConfirming()
  const needsConfirming = !isConfirmed && part.place !== 'page'

  const decide = (decision: 'once' | 'always' | 'no') => {
    const isApproved = decision !== 'no'
    session.decide(part.callId, {
      isApproved,
      ...(isApproved && isEdited && { editedArgs: edited }),
      ...(decision === 'always' && standing && { always: standing.scope }),
    })
  }
  return (
    <section class="approval" aria-labelledby={label} ref={section}>
      <div class="approval-head">
        <h2 id={label}>{say('question', { name: titleOf(part) })}</h2>
        <span class="place">{total > 1 ? say('place', { count: place, total }) : ''}</span>
      </div>
      <div class="approval-body">
        <p>{explain(part, agentName, texts)}</p>
        {reason !== '' && <p>{say('askReason', { reason })}</p>}
        {fields.length === 0 && <p class="muted">{say('noInput')}</p>}
        {canEdit && !isRaw && (
          <ArgumentForm
            id={label}
            fields={fields}
            changed={changed}
            checks={checks}
            onChange={(name, text) => setChanged(new Map([...changed, [name, text]]))}
          />
        )}
        {fields.length > 0 && (isRaw || !canEdit) && (
          <ExactInput args={isEdited ? edited : part.input} label={say('exactInput')} />
        )}
        {canEdit && (
          <button type="button" class="link" onClick={() => setIsRaw(!isRaw)}>
            {say(isRaw ? 'hideJson' : 'showJson')}
          </button>
        )}
      </div>
      {needsConfirming && <ConfirmBrowser need="confirmNeeded" without="confirmUnavailable" />}
      <Choices guard={guard} always={standing?.label} canAllow={isValid && !needsConfirming} onDecision={decide} />
    </section>
  )
}

/** A question that isn't the first one. */
export const LaterApproval = ({ part, place, total }: Pick<ApprovalProps, 'part' | 'place' | 'total'>): JSX.Element => {
  const { say } = useTexts()
  return (
    <section class="approval is-later">
      <div class="approval-head">
        <h2>{say('question', { name: titleOf(part) })}</h2>
        <span class="place">{say('place', { count: place, total })}</span>
      </div>
      <p class="muted">{say('nextQuestion')}</p>
    </section>
  )
}

export function explain(part: ToolEntryPart, agentName: string, { say }: Texts): string {
  const values = {
    client: agentName || say('theAgent'),
    tool: plainText(part.name, 120),
    source: plainText(part.source ?? '', 120),
  }
  const [wish, effect] = wishes[part.place]
  const mayChange = effect && part.reasonData.may_change !== false
  return mayChange ? `${say(wish, values)} ${say(effect)}` : say(wish, values)
}

/** What the agent wants, and what that may do. */
const wishes: Record<ToolEntryPart['place'], readonly [wish: StringKey, effect?: StringKey]> = {
  page: ['askOnPage', 'mayChangeHere'],
  tab: ['askInTab', 'mayChangeThere'],
  connector: ['askAtConnector', 'mayChangeThere'],
  'built-in': ['askBuiltIn'],
  client: ['askAnywhere', 'mayChange'],
  unknown: ['askAnywhere', 'mayChange'],
}

const reasons: Record<string, StringKey | undefined> = {
  ALWAYS_ASKED: 'reasonAlwaysAsked',
  ENDS_ACCESS: 'reasonEndsAccess',
  INTERRUPTED_BEFORE: 'reasonInterrupted',
  TEXT_FROM_ELSEWHERE: 'reasonElsewhere',
}

/**
 * What the user can allow beyond this call. A permission for a tool doesn't cover data for another origin, so a question
 * about such data only offers one for calls without input.
 */
export function findStanding(
  part: ToolEntryPart,
  { say }: Texts,
): { label: string; scope: 'tool' | 'origin' } | undefined {
  const { code, to, tools } = part.reasonData
  if (code !== 'TEXT_FROM_ELSEWHERE') return { label: say('alwaysInThread'), scope: 'tool' }
  const count = Number(tools ?? 0)
  if (count === 0) return undefined
  if (count === 1) return { label: say('alwaysWithoutInput'), scope: 'tool' }
  return { label: say('alwaysOfOrigin', { count, to: plainText(String(to), 120) }), scope: 'origin' }
}

/** In the panel's language, or as the server says it if its code isn't known here. `explain` says what may change. */
export function explainReason(part: ToolEntryPart, { say }: Texts): string {
  const { code, more, to, tools } = part.reasonData
  if (code === 'MAY_CHANGE') return ''
  const key = reasons[String(code)]
  if (!key) return plainText(part.reason ?? '')
  const from = plainText(String(part.reasonData.from), 120)
  return say(key === 'reasonElsewhere' && tools !== undefined ? 'reasonChoice' : key, {
    from: Number(more) > 0 ? say('andMore', { from, more: Number(more) }) : from,
    to: plainText(String(to), 120) || titleOf(part),
  })
}

const checkAll = (fields: readonly ArgumentField[], changed: ReadonlyMap<string, string>) =>
  new Map<string, Checked>(
    fields.map((field) => [field.name, checkField(field, changed.get(field.name) ?? field.text)]),
  )

const collect = (checks: ReadonlyMap<string, Checked>) =>
  Object.fromEntries([...checks].flatMap(([name, check]) => ('value' in check ? [[name, check.value]] : [])))

const inOrder = (input: Record<string, unknown>, fields: readonly ArgumentField[]) =>
  Object.fromEntries(fields.flatMap(({ name }) => (Object.hasOwn(input, name) ? [[name, input[name]]] : [])))
