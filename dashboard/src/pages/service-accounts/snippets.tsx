import { Segments } from '../../ui/controls/choice.tsx'
import { CodeBlock } from '../../ui/display/code.tsx'
import { useAccountFilters } from './data.ts'
import { t } from './texts.ts'

const url = location.origin

/** How to use a key, in each kind of program. */
const programs: readonly { id: string; name: string; code: (key: string) => string }[] = [
  {
    id: 'curl',
    name: 'curl',
    code: (key) => `INLAY_KEY=${key}\ncurl -s ${url}/api/organizations \\\n  -H "Authorization: Bearer $INLAY_KEY"`,
  },
  {
    id: 'claude-code',
    name: 'Claude Code',
    code: (key) => `INLAY_KEY=${key}
claude mcp add --transport http inlay ${url}/mcp \\
  --header "Authorization: Bearer $INLAY_KEY"`,
  },
  {
    id: 'mcp',
    name: t.otherClients,
    code: (key) =>
      JSON.stringify(
        {
          mcpServers: {
            inlay: { type: 'http', url: `${url}/mcp`, headers: { Authorization: `Bearer ${key}` } },
          },
        },
        null,
        2,
      ),
  },
]

export function Snippets({ keyText }: { keyText: string }) {
  const [{ snippet }, setFilters] = useAccountFilters()
  const program = programs.find(({ id }) => id === snippet) ?? programs[0]
  return (
    program && (
      <div className="grid gap-3">
        <h3 className="font-semibold">{t.use}</h3>
        <Segments
          label={t.program}
          value={program.id}
          options={programs.map(({ id, name }) => [id, name] as const)}
          onValue={(next) => setFilters({ snippet: next })}
        />
        <CodeBlock label={program.name} code={program.code(keyText)} />
      </div>
    )
  )
}
