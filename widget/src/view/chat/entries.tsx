import { Component, type JSX } from 'preact'
import { useRef } from 'preact/hooks'
import type { Entry, UserEntry } from '../../chat/state.ts'
import { AgentMessage } from './agent-message.tsx'
import { UserMessage } from './user-message.tsx'

const mostInGroup = 16
const mostInSection = 16

/**
 * The messages of a conversation, in groups, and the groups in sections: the browser skips those that are out of view,
 * and updates skip those that haven't changed. Without sections, both would take longer the longer the conversation is.
 */
export function Entries({ entries, isWorking }: { entries: readonly Entry[]; isWorking: boolean }): JSX.Element {
  const starts = useRef(new Set<string>())
  const origin = useRef<string>(undefined)
  const lastMine = entries.findLast(({ role }) => role === 'user')
  const last = entries.findLast((entry) => entry.role === 'assistant' || entry.delivery !== 'refused')
  const groups = groupEntries(entries, starts.current)
  const known = groups.findIndex(([first]) => first?.id === origin.current)
  if (known < 0) origin.current = groups[0]?.[0]?.id
  return (
    <>
      {sectionGroups(groups, Math.max(known, 0)).map(([number, section]) => (
        <Section
          key={number}
          groups={section}
          editable={isWorking ? undefined : findIn(section, lastMine)}
          repeatable={isWorking ? undefined : findIn(section, last)}
        />
      ))}
    </>
  )
}

const findIn = (groups: readonly Entry[][], wanted: Entry | undefined): Entry | undefined =>
  groups.some((group) => group.includes(wanted as Entry)) ? wanted : undefined

const isSameList = <Item,>(before: readonly Item[], now: readonly Item[], isSame: (a: Item, b: Item) => boolean) =>
  before.length === now.length && before.every((item, index) => isSame(item, now[index] as Item))

const isSameGroup = (before: readonly Entry[], now: readonly Entry[]) => isSameList(before, now, Object.is)

interface Marks {
  /** The message that can be edited. */
  editable: Entry | undefined
  /** The answer that can be replaced. */
  repeatable: Entry | undefined
}

const isSameMarks = (before: Marks, { editable, repeatable }: Marks) =>
  editable === before.editable && repeatable === before.repeatable

class Section extends Component<Marks & { groups: readonly Entry[][] }> {
  override shouldComponentUpdate(next: typeof this.props): boolean {
    return !isSameMarks(this.props, next) || !isSameList(this.props.groups, next.groups, isSameGroup)
  }

  override render({ groups, editable, repeatable }: typeof this.props): JSX.Element {
    return (
      <div class="section">
        {groups.map((group) => (
          <Group
            key={group[0]?.id}
            entries={group}
            editable={findIn([group], editable)}
            repeatable={findIn([group], repeatable)}
          />
        ))}
      </div>
    )
  }
}

/** The server has accepted or refused the message. */
const isSettled = (delivery: UserEntry['delivery']) => delivery === 'delivered' || delivery === 'refused'

class Group extends Component<Marks & { entries: readonly Entry[] }> {
  override shouldComponentUpdate(next: typeof this.props): boolean {
    return !isSameMarks(this.props, next) || !isSameGroup(this.props.entries, next.entries)
  }

  override render({ entries, editable, repeatable }: typeof this.props): JSX.Element {
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

/** Sections are counted from the group at `origin`, so that they stay the same when groups are added at either end. */
export function sectionGroups<Group>(groups: readonly Group[], origin: number): [number: number, section: Group[]][] {
  return [...Map.groupBy(groups, (_, index) => Math.floor((index - origin) / mostInSection))]
}
