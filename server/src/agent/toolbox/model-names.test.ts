import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ToolRef } from '../runs/run.ts'
import { nameTools } from './model-names.ts'

const toolOf = (name: string, definitionHash = 'h') => ({
  ref: { kind: 'page', name, origin: 'o', source_id: 's', title: '' } satisfies ToolRef,
  definitionHash,
})

test('any tools get different names that models accept', () => {
  const anyTool = fc.tuple(fc.string({ minLength: 1, maxLength: 128, unit: 'grapheme' }), fc.string({ maxLength: 2 }))
  fc.assert(
    fc.property(fc.array(anyTool, { maxLength: 40 }), (tools) => {
      const named = nameTools(
        tools.map(([name, hash]) => toolOf(name, hash)),
        ['taken'],
      )
      const names = named.map(({ name }) => name)
      expect(names.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name))).toBe(true)
      expect(new Set(['taken', ...names]).size).toBe(names.length + 1)
    }),
  )
})

test('a tool keeps its name when another one appears after it', () => {
  const [first, second] = [toolOf('add', 'one'), toolOf('add', 'two')]
  const names = (...tools: (typeof first)[]) => nameTools(tools, []).map(({ name }) => name)
  expect(names(first)).toEqual(['add'])
  const [kept, suffixed] = names(first, second)
  expect(kept).toBe('add')
  expect(names(first, toolOf('pay'), second)).toEqual(['add', 'pay', suffixed])
})
