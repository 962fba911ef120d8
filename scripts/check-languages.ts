// Lists the texts that a language lacks, and fails if there are any. They're shown in English, so only releases run this.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readEnglishTexts } from '../dashboard/english-texts.ts'
import { english as element } from '../widget/src/element-strings.ts'
import { elementTranslations, previewTranslations, viewTranslations } from '../widget/src/languages/languages.ts'
import { english as preview } from '../widget/src/preview/strings.ts'
import { english as view } from '../widget/src/view/strings.ts'

/** The names of texts by section, with dots for texts in records. */
type Sections = Record<string, readonly string[]>

const dashboard = join(import.meta.dirname, '../dashboard/src')

/** By URL, because the files have types of code for browsers. */
const importFile = (file: string) => import(pathToFileURL(join(dashboard, file)).href)

const namesOf = (sections: Record<string, object | undefined>): Sections =>
  Object.fromEntries(Object.entries(sections).map(([section, texts = {}]) => [section, namesIn(texts)]))

const namesIn = (texts: object): string[] =>
  Object.entries(texts).flatMap(([name, text]) =>
    typeof text === 'object' && text !== null && !Array.isArray(text)
      ? namesIn(text).map((inside) => `${name}.${inside}`)
      : [name],
  )

/** Unknown texts don't exist in English. */
export function compareTexts(english: Sections, translated: Sections): { missing: string[]; unknown: string[] } {
  const list = (sections: Sections) =>
    new Set(Object.entries(sections).flatMap(([section, names]) => names.map((name) => `${section}.${name}`)))
  const inEnglish = list(english)
  const inTranslation = list(translated)
  return {
    missing: [...inEnglish.difference(inTranslation)],
    unknown: [...inTranslation.difference(inEnglish)],
  }
}

/** Compares each language of the dashboard and of the widget with English. */
export async function compareLanguages(): Promise<Record<string, ReturnType<typeof compareTexts>>> {
  const { languages } = await importFile('lib/languages.ts')
  const english = {
    dashboard: readEnglishTexts(dashboard),
    widget: namesOf({ element, preview, view }),
  }
  const results: Record<string, ReturnType<typeof compareTexts>> = {}
  for (const language of Object.keys(languages).filter((one) => one !== 'en')) {
    const { translation } = await importFile(`languages/${language}.ts`)
    const ofWidget = {
      element: elementTranslations[language],
      preview: previewTranslations[language],
      // Without the plural forms that English doesn't have.
      view: Object.fromEntries(Object.entries(viewTranslations[language] ?? {}).filter(([name]) => name in view)),
    }
    results[`dashboard, ${language}`] = compareTexts(english.dashboard, namesOf(translation))
    results[`widget, ${language}`] = compareTexts(english.widget, namesOf(ofWidget))
  }
  return results
}

if (import.meta.main) {
  for (const [name, { missing }] of Object.entries(await compareLanguages())) {
    console.log(
      missing.length === 0 ? `${name}: complete` : `${name} lacks ${missing.length}:\n  ${missing.join('\n  ')}`,
    )
    if (missing.length > 0) process.exitCode = 1
  }
}
