export const frameworks = [
  ['html', 'HTML'],
  ['react', 'React'],
  ['vue', 'Vue'],
  ['next', 'Next.js'],
] as const
export type Framework = (typeof frameworks)[number][0]

const component = (key: string, url: string, withToken: boolean) =>
  `<InlayAgent publishableKey="${key}" ${withToken ? 'idToken={getIdToken} ' : ''}apiBase="${url}" />`
const tokenImport = (withToken: boolean) => (withToken ? "\nimport { getIdToken } from './session'" : '')

export const snippetWriters: Record<Framework, (key: string, url: string, withToken: boolean) => string> = {
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
