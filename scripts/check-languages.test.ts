import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readEnglishTexts } from '../dashboard/english-texts.ts'
import { compareLanguages, compareTexts } from './check-languages.ts'

function makeCatalogue(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-texts-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'pages'))
  for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), code)
  return folder
}

const shop = `import { texts } from '../lib/texts.ts'
export const t = texts('shop', {
  title: 'Shop',
  pieces: (count: number) => \`\${count} pieces\`,
  states: { open: 'Open', closed: 'Closed' },
})`
const form = `const t = texts<{ send: string }>('form', { send: 'Send' })
export const Form = () => <button>{t.send}</button>`

test('the check of languages lists each text that a language lacks, and each that English doesn’t have', () => {
  const english = readEnglishTexts(makeCatalogue({ 'pages/shop.ts': shop, 'form.tsx': form }))
  expect(compareTexts(english, { shop: ['title', 'price', 'states.open'], cart: ['empty'] })).toEqual({
    missing: expect.arrayContaining(['shop.pieces', 'shop.states.closed', 'form.send']),
    unknown: ['shop.price', 'cart.empty'],
  })
  expect(
    compareTexts(english, { shop: ['title', 'pieces', 'states.open', 'states.closed'], form: ['send'] }).missing,
  ).toEqual([])
})

test.each([
  ['two files with the same section', { 'a.ts': shop, 'b.ts': shop }],
  ['a section whose name is computed', { 'a.ts': `texts(name, { send: 'Send' })` }],
  ['texts that aren’t written down there', { 'a.ts': `texts('shop', { ...others })` }],
])('the check of languages refuses %s', (_, files) => {
  expect(() => readEnglishTexts(makeCatalogue(files as Record<string, string>))).toThrow('.ts: ')
})

test('languages have no texts that English doesn’t have', async () => {
  for (const [name, { unknown }] of Object.entries(await compareLanguages())) expect(unknown, name).toEqual([])
})
