import { texts } from '../../lib/texts.ts'
import { CodeBlock } from '../../ui/code.tsx'
import { Switch } from '../../ui/form.tsx'
import { ViewSwitch } from '../../ui/view-switch.tsx'
import { useKeyFilters } from './data.ts'

const t = texts({
  en: {
    framework: 'Framework',
    withToken: 'My users are signed in',
    withTokenHint: 'Passes the user’s ID token, so that the agent knows who they are.',
    files: { html: 'In your page', react: 'A component', vue: 'A component', next: 'app/agent.tsx' },
    install:
      'Install the package first: run “npm pack -w widget” in the folder of your Inlay server, and install the file.',
    vue: "Vue needs isCustomElement: (tag) => tag === 'inlay-agent' in the compilerOptions of its Vite plugin.",
    next: 'Put <Agent /> into the body of app/layout.tsx.',
    csp: (origin: string) => `If your page has a content security policy, allow ${origin} in script-src and frame-src.`,
  },
  de: {
    framework: 'Framework',
    withToken: 'Meine Nutzer sind angemeldet',
    withTokenHint: 'Übergibt das ID-Token des Nutzers, damit der Agent weiß, wer er ist.',
    files: { html: 'In Ihrer Seite', react: 'Eine Komponente', vue: 'Eine Komponente', next: 'app/agent.tsx' },
    install:
      'Installieren Sie zuerst das Paket: Führen Sie „npm pack -w widget“ im Ordner Ihres Inlay-Servers aus, und installieren Sie die Datei.',
    vue: "Vue braucht isCustomElement: (tag) => tag === 'inlay-agent' in den compilerOptions seines Vite-Plugins.",
    next: 'Setzen Sie <Agent /> in den body von app/layout.tsx.',
    csp: (origin: string) =>
      `Wenn Ihre Seite eine Content Security Policy hat, erlauben Sie ${origin} in script-src und frame-src.`,
  },
})

const frameworks = [
  ['html', 'HTML'],
  ['react', 'React'],
  ['vue', 'Vue'],
  ['next', 'Next.js'],
] as const
type Framework = (typeof frameworks)[number][0]

const component = (key: string, url: string, withToken: boolean) =>
  `<InlayAgent publishableKey="${key}" ${withToken ? 'idToken={getIdToken} ' : ''}apiBase="${url}" />`
const tokenImport = (withToken: boolean) => (withToken ? "\nimport { getIdToken } from './session'" : '')

const writers: Record<Framework, (key: string, url: string, withToken: boolean) => string> = {
  html: (key, url, withToken) =>
    withToken
      ? `<script async src="${url}/widget.js"></script>
<inlay-agent></inlay-agent>
<script type="module">
  await customElements.whenDefined('inlay-agent')
  document.querySelector('inlay-agent').connect({
    publishableKey: '${key}',
    // Your own endpoint, which returns the user's ID token.
    idToken: async () => (await (await fetch('/session')).json()).idToken,
  })
</script>`
      : `<script async src="${url}/widget.js"></script>
<inlay-agent publishable-key="${key}"></inlay-agent>`,
  react: (key, url, withToken) => `import { InlayAgent } from '@inlay/widget/react'${tokenImport(withToken)}

export const Agent = () => (
  ${component(key, url, withToken)}
)`,
  vue: (key, url, withToken) =>
    withToken
      ? `<script setup lang="ts">
import '@inlay/widget/define'
import type { InlayAgent } from '@inlay/widget'
import { onMounted, useTemplateRef } from 'vue'
import { getIdToken } from './session'

const agent = useTemplateRef<InlayAgent>('agent')
onMounted(() => agent.value?.connect({ publishableKey: '${key}', idToken: getIdToken }))
</script>

<template>
  <inlay-agent ref="agent" api-base="${url}"></inlay-agent>
</template>`
      : `<script setup lang="ts">
import '@inlay/widget/define'
</script>

<template>
  <inlay-agent publishable-key="${key}" api-base="${url}"></inlay-agent>
</template>`,
  next: (key, url, withToken) => `'use client'
import { InlayAgent } from '@inlay/widget/react'${tokenImport(withToken)}

export default function Agent() {
  return ${component(key, url, withToken)}
}`,
}

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
      <ViewSwitch
        label={t.framework}
        value={framework}
        views={frameworks}
        onValue={(snippet) => setFilters({ snippet })}
      />
      <Switch
        label={t.withToken}
        hint={t.withTokenHint}
        checked={withToken}
        onChecked={(checked) => setFilters({ auth: checked ? 'yes' : '' })}
      />
      <CodeBlock label={t.files[framework]} code={writers[framework](keyText, location.origin, withToken)} />
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
