import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, ExternalLink } from 'lucide-react'
import { useFilters } from '../../lib/filters.ts'
import { texts } from '../../lib/texts.ts'
import { listMcpTools } from '../../session/mcp.ts'
import { useOrgPath } from '../../session/me.ts'
import { buttonClass, CopyButton } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { CodeBlock } from '../../ui/display/code.tsx'
import { PageHeader, Section } from '../../ui/display/layout.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { describeClients } from './clients.ts'

export const t = texts('mcp', {
  title: 'MCP',
  text: 'Connect an assistant to Inlay: it manages this organization and uses the tools of your open pages.',
  copyUrl: 'Copy URL',
  connect: 'Connect a client',
  connectText: 'The client opens the browser, where you sign in, choose an organization and allow access.',
  client: 'Client',
  can: 'What a client can do',
  canText: 'It acts as you, with your role. These are the tools that it gets from your account.',
  pages: 'Tools of your open pages',
  skills: 'Clients also get your organization’s skills, as resources.',
})

const url = `${location.origin}/mcp`
const clients = describeClients(url)

export default function Mcp() {
  const [filters, setFilters] = useFilters({ client: 'claude-code' })
  const client = clients.find(({ id }) => id === filters.client) ?? clients[0]
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={<CopyButton text={url} label={t.copyUrl} />} />
      <div className="grid gap-3">
        <Section title={t.connect} text={t.connectText}>
          <Segments
            label={t.client}
            value={client?.id ?? ''}
            options={clients.map(({ id, name }) => [id, name] as const)}
            onValue={(next) => setFilters({ client: next })}
          />
          {client && (
            <div className="mt-3 grid max-w-3xl gap-3">
              {client.install && (
                <p>
                  <a href={client.install.href} className={buttonClass('primary')}>
                    {client.install.name}
                    <ExternalLink size={16} strokeWidth={1.5} aria-hidden />
                  </a>
                </p>
              )}
              {client.snippets.map(({ label, code }) => (
                <CodeBlock key={label} label={label} code={code} />
              ))}
              <p className="text-muted">{client.next}</p>
            </div>
          )}
        </Section>
        <Tools />
      </div>
    </>
  )
}

/** The list that a client gets with the same account. */
function Tools() {
  const orgPath = useOrgPath()
  const tools = useQuery({ queryKey: ['mcp', 'tools'], queryFn: ({ signal }) => listMcpTools(signal) })
  return (
    <Section
      title={t.can}
      text={t.canText}
      actions={
        <Link to={orgPath('hub')} className="link flex items-center gap-1 text-sm">
          {t.pages} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
        </Link>
      }
    >
      <Loaded query={tools} lines={6}>
        {(list) => (
          <ul className="grid gap-x-6 gap-y-3 lg:grid-cols-2">
            {list.map(({ name, title, description }) => (
              <li key={name} className="min-w-0">
                <p className="flex flex-wrap items-baseline gap-x-2">
                  <span className="font-[550]">{title ?? name}</span>
                  <span className="mono text-muted">{name}</span>
                </p>
                <p className="line-clamp-2 text-sm text-muted" title={description}>
                  {description}
                </p>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <p className="mt-3 text-sm text-muted">{t.skills}</p>
    </Section>
  )
}
