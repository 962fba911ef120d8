import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { EntryPart, ToolEntryPart } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useSession, useTexts } from '../context.ts'
import { Icon, type IconName } from '../icons.tsx'
import { titleOf } from '../questions/approval.tsx'
import { ExactInput, ExactOutput } from '../questions/exact-input.tsx'
import type { StringKey, Texts } from '../strings.ts'

const states: Record<ToolEntryPart['state'], [StringKey, IconName | undefined]> = {
  running: ['toolRunning', undefined],
  asking: ['toolAsking', 'clock'],
  done: ['toolDone', 'check'],
  failed: ['toolFailed', 'alert'],
  declined: ['toolDeclined', 'ban'],
  stopped: ['toolStopped', 'stop'],
}

/** A call in the conversation. Everything that a tool or the model says is in a block with a label of ours. */
export function ToolCard({ part }: { part: ToolEntryPart }): JSX.Element {
  const texts = useTexts()
  const { say } = texts
  const [isOpen, setIsOpen] = useState(false)
  const [state, icon] = states[part.state]
  const source = sourceOf(part, texts)
  return (
    <details class="tool" data-state={part.state} onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>
        <span class="tool-state">
          {icon ? <Icon name={icon} /> : <span class="spinner" />}
          <span class="unseen">{say(state)}</span>
        </span>
        <span class="tool-title">
          <bdi class="tool-name">{titleOf(part)}</bdi>
          <span class="tool-source">{source}</span>
        </span>
        {part.state !== 'done' && part.state !== 'running' && <span class="tool-word">{say(state)}</span>}
        {part.durationMs !== null && <span class="tool-time">{texts.duration(part.durationMs)}</span>}
        <Icon name="chevron" />
      </summary>
      {isOpen && (
        <div class="tool-body">
          <p class="label">{say('toolInput')}</p>
          <ExactInput args={part.input} label={say('toolInput')} />
          {part.editedInput && (
            <>
              <p class="label">{say('toolEdited')}</p>
              <ExactInput args={part.editedInput} label={say('toolEdited')} />
            </>
          )}
          {part.output !== null && <Labelled label={say('toolOutput', { source })} text={part.output} />}
          {part.error !== null && <Labelled label={say('toolError', { source })} text={part.error} />}
        </div>
      )}
    </details>
  )
}

/** The accounts that the user has to connect before the agent can continue, each once. */
export function ConnectOffers({ parts }: { parts: readonly EntryPart[] }): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const needed = parts.flatMap((part) => (part.kind === 'tool' && part.connect ? [part.connect] : []))
  const latest = [...new Map(needed.map((connect) => [connect.service, connect])).values()]
  return (
    <>
      {latest.map(({ service, path }) => {
        const name = plainText(service, 80)
        return (
          <section key={service} class="outcome is-connect" aria-label={say('connect', { name })}>
            <Icon name="alert" />
            <div>
              <b>{say('connectNeeded', { name })}</b>
              <p>{say('connectHint')}</p>
            </div>
            <a class="button small primary" href={path} target="_blank" rel="noopener noreferrer">
              {say('connect', { name })}
            </a>
            <button type="button" class="small" onClick={() => session.send(say('connectMessage', { name }))}>
              {say('connectContinue')}
            </button>
          </section>
        )
      })}
    </>
  )
}

const Labelled = ({ label, text }: { label: string; text: string }) => (
  <>
    <p class="label">{label}</p>
    <ExactOutput text={text} label={label} />
  </>
)

function sourceOf({ place, source }: ToolEntryPart, { say }: Texts): string {
  if (place === 'page') return say('onThisPage')
  if (place === 'built-in') return say('builtIn')
  if (place === 'tab' && !source) return say('inOtherTab')
  return plainText(source ?? '', 80) || say('theTool')
}
