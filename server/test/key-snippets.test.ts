import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compileScript, parse } from '@vue/compiler-sfc'
import { describe, expect, onTestFinished, test } from 'vitest'
import { frameworks, snippetWriters } from '../../dashboard/src/pages/keys/snippets/snippet-texts.ts'

const repository = join(import.meta.dirname, '../..')
const key = 'pk_live_0123456789'
const url = 'https://inlay.example.com'

/** What the snippets expect in an application. Vue itself isn't installed. */
const application = {
  'session.ts': 'export const getIdToken = async (): Promise<string> => ""',
  'vue.d.ts': `declare module 'vue' {
    export function onMounted(hook: () => void): void
    export function useTemplateRef<T>(name: string): { readonly value: T | null }
  }`,
}

/** Returns the compiler's errors for the files of an application that uses the widget. */
function compile(files: Record<string, string>): string {
  mkdirSync(join(repository, 'test-results'), { recursive: true })
  const folder = mkdtempSync(join(repository, 'test-results/key-snippets-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const compilerOptions = {
    noEmit: true,
    strict: true,
    target: 'esnext',
    module: 'esnext',
    moduleResolution: 'bundler',
    allowImportingTsExtensions: true,
    allowJs: true,
    skipLibCheck: true,
    lib: ['esnext', 'dom'],
    jsx: 'react-jsx',
    types: [],
    paths: {
      '@inlay/widget': [join(repository, 'widget/src/inlay-agent.ts')],
      '@inlay/widget/*': [join(repository, 'widget/src/*.ts')],
    },
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*'] }))
  for (const [name, text] of Object.entries({ ...application, ...files })) writeFileSync(join(folder, name), text)
  const { status, stdout, stderr } = spawnSync(join(repository, 'node_modules/.bin/tsc'), ['-p', folder], {
    encoding: 'utf8',
  })
  return status === 0 ? '' : `${stdout}${stderr}`
}

/** The files that a reader gets from a snippet. */
const readers: Record<keyof typeof snippetWriters, (snippet: string) => Record<string, string>> = {
  html: (snippet) => ({ 'page.js': /<script type="module">(.*)<\/script>/s.exec(snippet)?.[1] ?? '' }),
  react: (snippet) => ({ 'agent.tsx': snippet }),
  next: (snippet) => ({ 'agent.tsx': snippet }),
  vue(snippet) {
    const compilerOptions = { isCustomElement: (tag: string) => tag === 'inlay-agent' }
    const { descriptor, errors } = parse(snippet, { templateParseOptions: compilerOptions })
    expect(errors).toEqual([])
    const { content } = compileScript(descriptor, {
      id: 'agent',
      inlineTemplate: true,
      templateOptions: { compilerOptions },
    })
    expect(content).toContain('inlay-agent')
    return { 'agent.ts': `${descriptor.scriptSetup?.content}\nexport {}` }
  },
}

describe.each(frameworks.map(([framework]) => framework))('the snippet for %s', (framework) => {
  test.each([false, true])('compiles; users are signed in: %s', (withToken) => {
    const snippet = snippetWriters[framework](key, url, withToken)
    expect(compile(readers[framework](snippet))).toBe('')
    expect(snippet).toContain(key)
    expect(snippet).toContain(url)
  })
})

test('a mistake in a snippet would be noticed', () => {
  const snippet = snippetWriters.react(key, url, false).replace('publishableKey', 'publicKey')
  expect(compile({ 'agent.tsx': snippet })).toContain('publicKey')
})
