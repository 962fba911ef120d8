import './style.css'
import { language } from './lib/language.ts'
import { translateTexts } from './lib/texts.ts'
import { applyTheme } from './lib/theme.ts'

applyTheme()

/** English texts are in the code. */
async function loadTranslation(): Promise<void> {
  if (language !== 'en') translateTexts((await import(`./languages/${language}.ts`)).translation)
}

// A module with texts chooses them when it's evaluated. No top-level await: the app's chunks import this one, and would
// wait for it.
loadTranslation().then(() => import('./app.tsx'))
