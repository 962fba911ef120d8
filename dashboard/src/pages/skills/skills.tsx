import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Plus, Upload } from 'lucide-react'
import { type ChangeEvent, useRef, useState } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { api, unwrapPage } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { SearchField } from '../../ui/controls/search-field.tsx'
import { Badge, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { notifyError } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'
import { skillQuery } from './queries.ts'
import { NewSkill, SkillPage } from './skill.tsx'
import { mostBytes, template } from './skill-text.ts'
import { t } from './texts.ts'

export default function Skills() {
  const { id } = useParams({ strict: false }) as { id?: string }
  const [{ create }, setFilters] = useFilters({ create: '' })
  const [start, setStart] = useState(template)
  if (id) return <Details id={id} />
  if (create === 'yes') return <NewSkill start={start} />
  function open(text: string) {
    setStart(text)
    setFilters({ create: 'yes' })
  }
  return <SkillList onNew={open} />
}

function Details({ id }: { id: string }) {
  const skill = useQuery(skillQuery(id))
  return (
    <Loaded query={skill} lines={10}>
      {(data) => <SkillPage key={id} skill={data} />}
    </Loaded>
  )
}

const isBuiltIn = (id: string) => id.startsWith('builtin:')

function SkillList({ onNew }: { onNew: (text: string) => void }) {
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const [{ q }, setFilters] = useFilters({ q: '' })
  const source = useCursorRows(['skills', 'list', q], async (cursor, signal) => {
    const body = { query: q, limit: pageSize, ...(cursor && { cursor }) }
    const { page, next_cursor } = await unwrapPage(api.POST('/organization-skills/list', { body, signal }))
    return { rows: page, next_cursor }
  })
  const write = (
    <Button variant="primary" icon={Plus} onClick={() => onNew(template)}>
      {t.write}
    </Button>
  )
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          <>
            <ImportButton onText={onNew} />
            {write}
          </>
        }
      />
      <SearchField label={t.search} className="mb-3 w-72" value={q} onValue={(search) => setFilters({ q: search })} />
      <DataTable
        label={t.title}
        rows={source.rows}
        rowId={({ id }) => id}
        error={source.error}
        onRetry={source.refetch}
        isFiltered={q !== ''}
        onClearFilters={() => setFilters({ q: '' })}
        onOpen={({ id }) => void navigate({ to: orgPath(`skills/${encodeURIComponent(id)}`) })}
        columns={[
          {
            id: 'name',
            header: t.name,
            cell: ({ id, name }) => (
              <span className="flex items-center gap-2">
                <span className="mono truncate font-[550]">{name}</span>
                {isBuiltIn(id) && <Badge>{t.builtIn}</Badge>}
              </span>
            ),
          },
          {
            id: 'description',
            header: t.description,
            isMinor: true,
            cell: ({ description }) => <span className="text-muted">{description}</span>,
          },
          {
            id: 'source',
            header: t.source,
            isMinor: true,
            cell: ({ source: from }) => (
              <span className="block truncate text-muted" title={from ? `${from.repository}/${from.path}` : undefined}>
                {from ? `${from.repository}/${from.path}` : t.ownSource}
              </span>
            ),
          },
        ]}
        empty={<EmptyState title={t.empty} text={t.emptyText} action={write} />}
      />
    </>
  )
}

function ImportButton({ onText }: { onText: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null)
  async function take({ target }: ChangeEvent<HTMLInputElement>) {
    const [file] = target.files ?? []
    target.value = ''
    if (!file) return
    if (file.size > mostBytes) return notifyError(t.importFailed, new ImportFailed(t.tooLarge))
    onText(await file.text())
  }
  return (
    <>
      <input
        ref={input}
        type="file"
        accept=".md,.markdown,.txt,text/markdown,text/plain"
        aria-label={t.import}
        className="sr-only"
        tabIndex={-1}
        onChange={take}
      />
      <Button icon={Upload} onClick={() => input.current?.click()}>
        {t.import}
      </Button>
    </>
  )
}

class ImportFailed extends Error {}
