import { describe, test } from 'vitest'
import { useForms } from './forms.ts'

const { forms, expectKept } = useForms()
const elsewhere = ['Agent', 'A new key', 'A confirmation']

describe('what was typed is kept if saving fails, and a slow server shows progress', () => {
  // Those that every-page-saving.test.ts leaves out.
  const others = Object.entries(forms).filter(([name]) => !elsewhere.includes(name))
  test.each(others)('%s', (_, form) => expectKept(form))
})
