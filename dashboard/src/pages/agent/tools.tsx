import { useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { type KeyboardEvent, useState } from 'react'
import { api, read } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input, Select, Textarea } from '../../ui/controls/form.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { RowButtons } from '../../ui/tables/rows.tsx'
import { newEntry, type PartProps, type Policy } from './draft.ts'
import { t } from './texts.ts'

const hubToolsQuery = read(['hub', 'tools'], (signal) => api.GET('/hub/tools', { signal }))
const calledToolsQuery = read(['tool-calls', 'recent'], (signal) =>
  api.GET('/tool-calls', { params: { query: { limit: 500 } }, signal }),
)
const mostGroups = 20
/** From this many on, a list needs a search. */
const searchFrom = 9

/** Tools that the agent could call: with a policy, called before, or offered by an open page or a connector. */
function useKnownTools(policies: Record<string, Policy>): string[] {
  const offered = useQuery(hubToolsQuery)
  const called = useQuery(calledToolsQuery)
  const names = [
    ...Object.keys(policies),
    ...(offered.data?.tools.map(({ name }) => name) ?? []),
    ...(called.data?.tool_calls.flatMap(({ tool, source_type }) => (source_type ? tool : [])) ?? []),
  ]
  return [...new Set(names)].sort((one, other) => one.localeCompare(other))
}

export function Tools({ draft, problems, change }: PartProps) {
  const { policies, groups } = draft
  const [added, setAdded] = useState<string[]>([])
  const [name, setName] = useState('')
  const [search, setSearch] = useState('')
  const known = useKnownTools({ ...Object.fromEntries(added.map((tool) => [tool, 'ask' as const])), ...policies })
  const shown = known.filter((tool) => tool.toLowerCase().includes(search.trim().toLowerCase()))
  function set(tool: string, policy: Policy | 'default') {
    const { [tool]: _, ...others } = policies
    change({ policies: policy === 'default' ? others : { ...others, [tool]: policy } })
  }
  function add() {
    const tool = name.trim()
    if (!tool) return
    setAdded([...added, tool])
    setName('')
    setSearch('')
    if (!(tool in policies)) set(tool, 'ask')
  }
  const addOnEnter = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return
    event.preventDefault()
    add()
  }
  const problem = Object.entries(problems).find(([field]) => field.startsWith('tool_policies'))
  return (
    <Section title={t.tools} text={t.toolsText}>
      {known.length >= searchFrom && (
        <Input
          type="search"
          aria-label={t.findTool}
          placeholder={t.findTool}
          value={search}
          className="mb-2 max-w-72"
          onChange={({ target }) => setSearch(target.value)}
        />
      )}
      {known.length === 0 ? (
        <p className="rounded-control bg-sunken px-3 py-2 text-sm text-muted">{t.noTools}</p>
      ) : (
        <>
          <ul className="max-h-96 overflow-y-auto rounded-control border border-line">
            {shown.map((tool) => (
              <li
                key={tool}
                className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1 border-line px-3 py-2 not-first:border-t"
              >
                <span className="mono min-w-0 wrap-anywhere">{tool}</span>
                <Select
                  aria-label={t.policyOf(tool)}
                  value={policies[tool] ?? 'default'}
                  options={Object.entries(t.policies) as [Policy | 'default', string][]}
                  onValue={(policy) => set(tool, policy)}
                />
              </li>
            ))}
          </ul>
          <p className="mt-2 text-sm text-muted">{t.policyHint}</p>
        </>
      )}
      {problem && (
        <p role="alert" className="mt-2 text-sm text-danger">
          {problem[0].replace(/^tool_policies\.?/, '')} {problem[1]}
        </p>
      )}
      <div className="mt-3 flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <Field label={t.addTool}>
            <Input
              value={name}
              maxLength={500}
              spellCheck={false}
              autoComplete="off"
              className="mono"
              onChange={({ target }) => setName(target.value)}
              onKeyDown={addOnEnter}
            />
          </Field>
        </div>
        <Button icon={Plus} className="mt-[22px]" onClick={add}>
          {t.add}
        </Button>
      </div>
      <p className="mt-1 text-sm wrap-anywhere text-muted">{t.addToolHint}</p>

      <fieldset className="mt-5 border-t border-line pt-4">
        <legend className="float-left w-full font-[550]">{t.groups}</legend>
        <p className="mb-2 text-sm text-muted">{t.groupsText}</p>
        <ol className="grid gap-2">
          {groups.map((group, at) => (
            <li key={group.id} className="flex items-start gap-1">
              <div className="min-w-0 flex-1">
                <Field label={t.group(at + 1)} hint={t.groupHint} error={problems[`origin_groups.${at}`]}>
                  <Textarea
                    value={group.text}
                    rows={3}
                    spellCheck={false}
                    placeholder={'https://shop.example.com\nhttps://checkout.example.com'}
                    className="mono"
                    onChange={({ target }) =>
                      change({ groups: groups.map((one) => (one === group ? { ...one, text: target.value } : one)) })
                    }
                  />
                </Field>
              </div>
              <div className="mt-[22px]">
                <RowButtons name={t.group(at + 1)} list={groups} at={at} onList={(next) => change({ groups: next })} />
              </div>
            </li>
          ))}
        </ol>
        {groups.length < mostGroups && (
          <Button
            icon={Plus}
            className={groups.length > 0 ? 'mt-2' : ''}
            onClick={() => change({ groups: [...groups, newEntry()] })}
          >
            {t.addGroup}
          </Button>
        )}
      </fieldset>
    </Section>
  )
}
