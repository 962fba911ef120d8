import { Component, type JSX } from 'preact'
import { useRef } from 'preact/hooks'
import type { Entry, UserEntry } from '../../chat/state.ts'
import { AgentMessage } from './agent-message.tsx'
import { UserMessage } from './user-message.tsx'

const mostInGroup = 16

/** The messages of a conversation, in groups: the browser skips those that are out of view, and so do updates. */
export function Entries({ entries, isWorking }: { entries: readonly Entry[]; isWorking: boolean }): JSX.Element {
  const starts = useRef(new Set<string>())
  const lastMine = entries.findLast(({ role }) => role === 'user')
  const last = entries.findLast((entry) => entry.role === 'assistant' || entry.delivery !== 'refused')
  return (
    <>
      {groupEntries(entries, starts.current).map((group) => (
        <Group
          key={group[0]?.id}
          entries={group}
          editable={!isWorking && group.includes(lastMine as Entry) ? lastMine : undefined}
          repeatable={!isWorking && group.includes(last as Entry) ? last : undefined}
        />
      ))}
    </>
  )
}

/** The server has accepted or refused the message. */
const isSettled = (delivery: UserEntry['delivery']) => delivery === 'delivered' || delivery === 'refused'

interface GroupProps {
  entries: readonly Entry[]
  /** The message that can be edited. */
  editable: Entry | undefined
  /** The answer that can be replaced. */
  repeatable: Entry | undefined
}

class Group extends Component<GroupProps> {
  override shouldComponentUpdate({ entries, editable, repeatable }: GroupProps): boolean {
    const before = this.props
    return (
      editable !== before.editable ||
      repeatable !== before.repeatable ||
      entries.length !== before.entries.length ||
      entries.some((entry, index) => entry !== before.entries[index])
    )
  }

  override render({ entries, editable, repeatable }: GroupProps): JSX.Element {
    return (
      <div class="group">
        {entries.map((entry) =>
          entry.role === 'user' ? (
            <UserMessage key={entry.id} entry={entry} canEdit={entry === editable && isSettled(entry.delivery)} />
          ) : (
            <AgentMessage key={entry.id} entry={entry} canRepeat={entry === repeatable} />
          ),
        )}
      </div>
    )
  }
}

/**
 * Splits a conversation into groups. `starts` are the ids of the entries that start a group: it's extended, so that
 * groups stay the same when entries are added at either end.
 */
export function groupEntries<Entry extends { id: string }>(
  entries: readonly Entry[],
  starts: Set<string>,
): readonly Entry[][] {
  const groups: Entry[][] = []
  for (const entry of entries) {
    const group = groups.at(-1)
    if (!group || group.length >= mostInGroup || starts.has(entry.id)) {
      starts.add(entry.id)
      groups.push([entry])
    } else group.push(entry)
  }
  return groups
}
