import { maxChatMessageLength } from '@inlay/protocol/values'
import type { JSX } from 'preact'
import { useContext, useState } from 'preact/hooks'
import type { UserEntry } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { ElsewhereContext, useSession, useTexts } from '../context.ts'
import { Icon, IconButton } from '../icons.tsx'
import { memo } from '../memo.tsx'
import type { StringKey } from '../strings.ts'

const longestShown = 100_000

const deliveries: Record<UserEntry['delivery'], StringKey | undefined> = {
  waiting: 'messageWaiting',
  sending: undefined,
  queued: 'messageQueued',
  delivered: undefined,
  refused: 'messageRefused',
}

interface UserMessageProps {
  entry: UserEntry
  /** Only the last message can be edited, while the agent rests. */
  canEdit: boolean
}

export const UserMessage = memo<UserMessageProps>(({ entry, canEdit }): JSX.Element => {
  const session = useSession()
  const { say } = useTexts()
  const [isEditing, setIsEditing] = useState(false)
  const elsewhere = useContext(ElsewhereContext)
  const delivery = elsewhere === entry.id ? 'messageElsewhere' : deliveries[entry.delivery]
  if (isEditing && canEdit)
    return (
      <article class="entry mine" data-id={entry.id} aria-label={say('you')}>
        <EditForm
          text={entry.text}
          onCancel={() => setIsEditing(false)}
          onSave={(text) => {
            session.edit(text)
            // A message that can't be kept stays in the field.
            if (!session.state.problem) setIsEditing(false)
          }}
        />
      </article>
    )
  return (
    <article class="entry mine" data-id={entry.id} data-delivery={entry.delivery} aria-label={say('you')}>
      {entry.skill && <SkillChip name={entry.skill} />}
      <div class="bubble-row">
        <div class="bubble" dir="auto">
          {plainText(entry.text, longestShown)}
        </div>
        {canEdit && <IconButton icon="pencil" class="quiet" label={say('edit')} onClick={() => setIsEditing(true)} />}
      </div>
      <div class="entry-foot">
        {delivery && (
          <span class="delivery" role="status">
            {entry.delivery === 'refused' && <Icon name="alert" />}
            {say(delivery)}
          </span>
        )}
        {entry.delivery === 'refused' && canEdit && (
          <button type="button" class="link" onClick={() => session.regenerate()}>
            {say('retry')}
          </button>
        )}
      </div>
    </article>
  )
})

/** A message that entered while the agent answered. */
export function SteeringMessage({ id, text }: { id: string; text: string }): JSX.Element {
  const { say } = useTexts()
  const isElsewhere = useContext(ElsewhereContext) === id
  return (
    <div class="mine steering">
      <div class="bubble" dir="auto">
        {plainText(text, longestShown)}
      </div>
      <div class="entry-foot">
        {isElsewhere && (
          <span class="delivery" role="status">
            {say('messageElsewhere')}
          </span>
        )}
      </div>
    </div>
  )
}

export function SkillChip({ name }: { name: string }): JSX.Element {
  const { say } = useTexts()
  return (
    <span class="chip">
      <span class="chip-kind">{say('skillUsed')}</span>
      <bdi>{plainText(name, 80)}</bdi>
    </span>
  )
}

interface EditFormProps {
  text: string
  onSave(text: string): void
  onCancel(): void
}

function EditForm({ text: given, onSave, onCancel }: EditFormProps): JSX.Element {
  const { say } = useTexts()
  const [text, setText] = useState(given)
  const isTooLong = text.trim().length > maxChatMessageLength
  const canSave = text.trim() !== '' && !isTooLong
  const save = () => canSave && onSave(text.trim())
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onCancel()
    else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) save()
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return (
    <div class="edit">
      <textarea
        aria-label={say('editMessage')}
        aria-invalid={isTooLong}
        dir="auto"
        rows={Math.min(8, given.split('\n').length + 1)}
        value={text}
        ref={focusEnd}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {isTooLong && (
        <p class="hint is-wrong" role="alert">
          {say('tooLong', { limit: maxChatMessageLength })}
        </p>
      )}
      <div class="row">
        <button type="button" onClick={onCancel}>
          {say('cancel')}
        </button>
        <button type="button" class="primary" aria-disabled={!canSave} onClick={save}>
          {say('save')}
        </button>
      </div>
    </div>
  )
}

/** The user has just asked for this field. */
function focusEnd(field: HTMLTextAreaElement | null): void {
  field?.focus()
  field?.setSelectionRange(field.value.length, field.value.length)
}
