import { expect, test } from 'vitest'
import { findCommands } from './find-commands.ts'

const commands = [
  { name: 'Go to Usage', group: 'Observe' },
  { name: 'Usage', group: 'Observe' },
  { name: 'Create a publishable key', group: 'Actions' },
  { name: 'Sign out', group: 'Actions' },
]
const found = (typed: string) => findCommands(commands, typed).map(({ name }) => name)

test.each([
  ['', commands.map(({ name }) => name)],
  ['usa', ['Usage', 'Go to Usage']],
  ['KEY create', ['Create a publishable key']],
  ['  sign ', ['Sign out']],
  ['actions', ['Create a publishable key', 'Sign out']],
  ['(', []],
])('%j finds %j', (typed, names) => {
  expect(found(typed)).toEqual(names)
})
