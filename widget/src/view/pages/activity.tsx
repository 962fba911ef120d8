import type { JSX } from 'preact'
import { onlyReads, type PageTool } from '../../channel.ts'
import type { Call, Permission } from '../../frame/calls.ts'
import { plainText } from '../../frame/plain-text.ts'
import type { LeftOut } from '../../frame/tool-messages.ts'
import { useTexts } from '../context.ts'
import { Inlaid } from '../icons.tsx'
import { ExactInput } from '../questions/exact-input.tsx'
import { clientOf, labelOfCall, nameOfTool, stateOfCall, stateOfEarlierCall } from './call-texts.ts'
import type { EarlierCall } from './earlier-calls.ts'

interface ActivityProps {
  isAnonymous: boolean
  calls: readonly Call[]
  earlier: readonly EarlierCall[]
}

/** Calls of this page's tools, also of other assistants. */
export function Activity({ isAnonymous, calls, earlier, tools }: ActivityProps & { tools: readonly PageTool[] }) {
  const { say } = useTexts()
  const names = new Map(tools.map((tool) => [tool.name, nameOfTool(tool)]))
  return (
    <>
      {calls.length + earlier.length === 0 && (
        <div class="empty">
          <Inlaid />
          <p>{say(isAnonymous ? 'callsForAnonymous' : 'callsForSignedIn')}</p>
        </div>
      )}
      <ol class="calls" aria-label={say('earlierCalls')}>
        {earlier.map((call) => (
          <EarlierRow key={call.id} call={call} title={names.get(call.name) ?? plainText(call.name)} />
        ))}
      </ol>
      <ol class="calls" aria-label={say('calls')}>
        {calls.map((call) => (
          <CallRow key={call.id} call={call} />
        ))}
      </ol>
    </>
  )
}

function CallRow({ call }: { call: Call }): JSX.Element {
  const texts = useTexts()
  return (
    <li data-state={call.state}>
      <b>{labelOfCall(call)}</b>
      <span class="state">{stateOfCall(call, texts)}</span>
      <span class="client">{clientOf(call, texts)}</span>
      <details>
        <summary>{texts.say('callInput')}</summary>
        <ExactInput args={call.args} label={texts.say('inputOfCall')} />
      </details>
    </li>
  )
}

function EarlierRow({ call, title }: { call: EarlierCall; title: string }): JSX.Element {
  const texts = useTexts()
  return (
    <li data-state={call.state}>
      <b>{title}</b>
      <span class="state">{stateOfEarlierCall(call, texts)}</span>
      <span class="client">
        {clientOf(call, texts)}
        {texts.say('listDivider')}
        <time dateTime={call.at.toISOString()}>{texts.dateTime(call.at)}</time>
      </span>
    </li>
  )
}

interface PageToolsProps {
  tools: readonly PageTool[]
  leftOut: readonly LeftOut[]
  permissions: readonly Permission[]
  onRevoke(subject: string): void
}

/** The page's tools, and those that run without asking. */
export function PageTools({ tools, leftOut, permissions, onRevoke }: PageToolsProps): JSX.Element {
  const { say, count } = useTexts()
  const allowed = new Set(permissions.flatMap(({ tool, connector }) => (connector ? [] : [JSON.stringify(tool)])))
  const hintOf = (tool: PageTool) =>
    say(onlyReads(tool) ? 'readsOnly' : allowed.has(JSON.stringify(tool)) ? 'alwaysAllowed' : 'asksFirst')
  const revoke = (subject: string, button: HTMLElement) => {
    // The button disappears, and the focus with it.
    button.closest('footer')?.querySelector<HTMLElement>('details:last-child > summary')?.focus()
    onRevoke(subject)
  }
  return (
    <footer class="page-tools">
      {permissions.length > 0 && (
        <details>
          <summary>{count('permissions', permissions.length)}</summary>
          <ul class="tools" aria-label={say('standingPermissions')}>
            {permissions.map((permission) => (
              <li class="permission" key={permission.subject}>
                <div>
                  <b>{labelOfCall(permission)}</b>
                  <span class="description">{say('permissionExtent')}</span>
                </div>
                <button
                  type="button"
                  class="small"
                  aria-label={say('revokeNamed', { name: labelOfCall(permission) })}
                  onClick={({ currentTarget }) => revoke(permission.subject, currentTarget)}
                >
                  {say('revoke')}
                </button>
              </li>
            ))}
          </ul>
        </details>
      )}
      <details>
        <summary>{count('tools', tools.length)}</summary>
        <ul class="tools" aria-label={say('toolsOnPage')}>
          {tools.map((tool) => (
            <li key={tool.name}>
              <b>{nameOfTool(tool)}</b>
              <span class="hint">{hintOf(tool)}</span>
              <span class="description">{plainText(tool.description)}</span>
            </li>
          ))}
          {leftOut.map(({ name, reason }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: several tools may have the same name
            <li key={index}>{say('notOffered', { name: plainText(name), reason })}</li>
          ))}
        </ul>
      </details>
    </footer>
  )
}
