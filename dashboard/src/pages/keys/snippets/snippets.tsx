import { texts } from '../../../lib/texts.ts'
import { Segments } from '../../../ui/controls/choice.tsx'
import { Switch } from '../../../ui/controls/form.tsx'
import { CodeBlock } from '../../../ui/display/code.tsx'
import { useKeyFilters } from '../data.ts'
import { frameworks, snippetWriters } from './snippet-texts.ts'

export const t = texts('snippets', {
  framework: 'Framework',
  withToken: 'My users are signed in',
  withTokenHint: 'Passes the user’s ID token, so that the agent knows who they are.',
  files: { html: 'In your page', react: 'A component', vue: 'A component', next: 'app/agent.tsx' },
  install:
    'Install the package first: run “npm pack -w widget” in the folder of your Inlay server, and install the file.',
  vue: "Vue needs isCustomElement: (tag) => tag === 'inlay-agent' in the compilerOptions of its Vite plugin.",
  next: 'Put <Agent /> into the body of app/layout.tsx.',
  csp: (origin: string) => `If your page has a content security policy, allow ${origin} in script-src and frame-src.`,
})

/** What to paste into a page, for several frameworks. Without the full key, its prefix stands for it. */
export function Snippets({ keyText }: { keyText: string }) {
  const [filters, setFilters] = useKeyFilters()
  const framework = frameworks.find(([id]) => id === filters.snippet)?.[0] ?? 'html'
  const withToken = filters.auth === 'yes'
  const notes = {
    html: [],
    react: [t.install],
    vue: [t.install, t.vue],
    next: [t.install, t.next],
  }[framework]
  return (
    <div className="grid gap-3">
      <Segments
        label={t.framework}
        value={framework}
        options={frameworks}
        onValue={(snippet) => setFilters({ snippet })}
      />
      <Switch
        label={t.withToken}
        hint={t.withTokenHint}
        checked={withToken}
        onChecked={(checked) => setFilters({ auth: checked ? 'yes' : '' })}
      />
      <CodeBlock label={t.files[framework]} code={snippetWriters[framework](keyText, location.origin, withToken)} />
      <ul className="grid gap-1 text-sm text-muted">
        {[...notes, t.csp(location.origin)].map((note) => (
          <li key={note} className="wrap-anywhere">
            {note}
          </li>
        ))}
      </ul>
    </div>
  )
}
