import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Play, Radio } from 'lucide-react'
import { useOrgPath } from '../../session/me.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'
import { Input, Select } from '../../ui/controls/form.tsx'
import { Badge, PageHeader, Section } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { words } from '../../ui/words.ts'
import { CallSheet } from './call-sheet.tsx'
import { firstSourceOf, runsUnasked, type Source, sourcesQuery, type Tool, toolsQuery, useHubFilters } from './data.ts'
import { t } from './texts.ts'

export default function Hub() {
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          <Badge tone="good" icon={Radio}>
            {t.live}
          </Badge>
        }
      />
      <div className="grid gap-3">
        <Pages />
        <Tools />
      </div>
      <CallSheet />
    </>
  )
}

function Pages() {
  const sources = useQuery(sourcesQuery)
  const orgPath = useOrgPath()
  return (
    <Section title={t.pages} text={t.pagesText}>
      <Loaded query={sources}>
        {({ sources: pages }) =>
          pages.length === 0 ? (
            <EmptyState
              title={t.none}
              text={t.noneText}
              action={
                <>
                  <Link to={orgPath('keys')} className={buttonClass('primary')}>
                    {t.toKeys}
                  </Link>
                  <Link to={orgPath('identity-provider')} className={buttonClass()}>
                    {t.toProvider}
                  </Link>
                </>
              }
            />
          ) : (
            <ul className="grid gap-2 md:grid-cols-2 xl:grid-cols-3" aria-label={t.pages}>
              {pages.map((page) => (
                <PageItem key={page.sourceId} page={page} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  )
}

function PageItem({ page: { title, origin, url, toolCount, connectedAt } }: { page: Source }) {
  return (
    <li className="min-w-0 rounded-control border border-line px-3 py-2.5">
      <div className="flex items-start gap-2">
        <p className="min-w-0 flex-1 truncate font-[550]">{title || t.untitled}</p>
        <Badge>{t.toolCount(toolCount)}</Badge>
      </div>
      {/^https?:\/\//.test(url) ? (
        <a href={url} target="_blank" rel="noopener noreferrer" className="link mono block truncate">
          {url}
        </a>
      ) : (
        <p className="mono truncate text-muted">{origin}</p>
      )}
      <p className="text-sm text-muted">
        {t.connected} <Ago at={connectedAt} />
      </p>
    </li>
  )
}

function Tools() {
  const [filters, setFilters] = useHubFilters()
  const tools = useQuery(toolsQuery)
  const sources = useQuery(sourcesQuery)
  const wanted = filters.search.toLowerCase()
  const matches = ({ name, title, description, sources: pages }: Tool) =>
    (!wanted || `${name} ${title ?? ''} ${description}`.toLowerCase().includes(wanted)) &&
    (!filters.source || pages?.some(({ sourceId }) => sourceId === filters.source))
  const pages = (sources.data?.sources ?? []).map(
    ({ sourceId, title, origin }) => [sourceId, `${title || t.untitled} (${origin})`] as const,
  )
  if (tools.data?.count === 0 && sources.data?.count === 0) return null
  return (
    <Section title={t.tools} text={t.toolsText}>
      <div className="mb-3 flex flex-wrap gap-2">
        <Input
          type="search"
          className="max-w-64"
          aria-label={t.search}
          placeholder={t.search}
          value={filters.search}
          onChange={(event) => setFilters({ search: event.target.value })}
        />
        {pages.length > 1 && (
          <Select
            className="max-w-full"
            aria-label={t.page}
            value={filters.source}
            options={[['', t.allPages], ...pages]}
            onValue={(source) => setFilters({ source })}
          />
        )}
      </div>
      <Loaded query={tools}>
        {({ tools: all }) => {
          const found = all.filter(matches)
          if (all.length === 0) return <EmptyState title={t.noTools} text={t.noToolsText} />
          if (found.length === 0) {
            return (
              <EmptyState
                title={words.nothingFound}
                text={words.nothingFoundText}
                action={<Button onClick={() => setFilters({ search: '', source: '' })}>{words.clear}</Button>}
              />
            )
          }
          return (
            <ul aria-label={t.tools}>
              {found.map((tool) => (
                <ToolItem
                  key={`${tool.name} ${firstSourceOf(tool)}`}
                  tool={tool}
                  onCall={() => setFilters({ tool: tool.name, on: firstSourceOf(tool) })}
                />
              ))}
            </ul>
          )
        }}
      </Loaded>
    </Section>
  )
}

function ToolItem({ tool, onCall }: { tool: Tool; onCall: () => void }) {
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 border-t border-line py-3 last:pb-0">
      <div className="min-w-0 flex-1 basis-60">
        <p className="flex flex-wrap items-baseline gap-x-2">
          {tool.title && <span className="font-[550] wrap-anywhere">{tool.title}</span>}
          <span className="mono wrap-anywhere">{tool.name}</span>
        </p>
        <p className="line-clamp-2 text-sm wrap-anywhere text-muted" title={tool.description}>
          {tool.description}
        </p>
      </div>
      <p className="flex flex-wrap items-center gap-2 text-sm text-muted">
        <ToolBadges tool={tool} />
        {tool.sources?.length ? t.onPages(tool.sources.length) : t.connector}
      </p>
      <Button icon={Play} onClick={onCall} aria-label={t.callTool(tool.name)}>
        {t.call}
      </Button>
    </li>
  )
}

function ToolBadges({ tool }: { tool: Tool }) {
  return (
    <>
      {tool.annotations?.destructiveHint && <Badge tone="bad">{t.destructive}</Badge>}
      {runsUnasked(tool) ? <Badge tone="good">{t.readOnly}</Badge> : <Badge tone="wait">{t.asks}</Badge>}
    </>
  )
}
