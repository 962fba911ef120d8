import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Form, useForms } from './forms.ts'

const { forms, expectKept } = useForms()

test('the table has every form of the dashboard', () => {
  const sources = join(import.meta.dirname, '../../../../dashboard/src')
  const files = globSync('**/*.tsx', { cwd: sources }).filter((file) =>
    readFileSync(join(sources, file), 'utf8').includes('<form '),
  )
  const missing = files.filter((file) => !Object.values(forms).some((form) => form.file === file))
  expect(missing).toEqual([])
})

describe('what was typed is kept if saving fails, and a slow server shows progress', () => {
  // One of a page, one of a dialog, and the one of all confirmations. every-page-saving-variations.test.ts has the others.
  test.each(['Agent', 'A new key', 'A confirmation'])('%s', (name) => expectKept(forms[name] as Form))
})
