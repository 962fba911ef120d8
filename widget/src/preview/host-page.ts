import { previewTranslations } from '../languages/languages.ts'
import { english } from './strings.ts'

const colors = ['green', 'blue', 'red', 'yellow', 'gray']
const mostNotes = 20
const longestNote = 200

interface HostTool {
  name: string
  title: string
  description: string
  inputSchema: Record<string, unknown>
  annotations?: { readOnlyHint: boolean }
  execute(args: Record<string, unknown>): unknown
}

const element = (name: string, text = '') => Object.assign(document.createElement(name), { textContent: text })

/** Shows the page, and returns its tools. Arguments are a model's, so they're checked, and only ever shown as text. */
export function showHostPage(body: HTMLElement, language: string): HostTool[] {
  const texts = { ...english, ...previewTranslations[language] }
  const title = element('h1', texts.name)
  const list = element('ul')
  list.setAttribute('aria-label', texts.notes)
  list.setAttribute('aria-live', 'polite')
  const notes: string[] = []
  const showNotes = () => {
    list.replaceChildren(...(notes.length > 0 ? notes : [texts.none]).map((note) => element('li', note)))
    list.lastElementChild?.scrollIntoView({ block: 'nearest', inline: 'end' })
  }
  let color = 'green'
  const showColor = () => {
    document.documentElement.dataset.color = color
  }
  showNotes()
  showColor()
  const header = element('header')
  header.append(title, element('p', texts.about), list)
  body.replaceChildren(header)
  document.title = texts.name

  return [
    {
      name: 'read_page',
      title: 'Read the page',
      description: 'Returns the title, the color and the notes of this page.',
      inputSchema: { type: 'object', properties: {} },
      annotations: { readOnlyHint: true },
      execute: () => ({ title: texts.name, color, notes }),
    },
    {
      name: 'change_page_color',
      title: 'Change the page’s color',
      description: 'Changes the color of this page.',
      inputSchema: {
        type: 'object',
        properties: { color: { type: 'string', enum: colors, description: 'The new color' } },
        required: ['color'],
      },
      execute(args) {
        const wanted = colors.find((one) => one === args.color)
        if (!wanted) throw new Error(`The color must be one of ${colors.join(', ')}.`)
        color = wanted
        showColor()
        return { color }
      },
    },
    {
      name: 'add_note',
      title: 'Add a note',
      description: 'Adds a short note to this page.',
      inputSchema: {
        type: 'object',
        properties: { text: { type: 'string', maxLength: longestNote, description: 'The note’s text' } },
        required: ['text'],
      },
      execute(args) {
        const text = typeof args.text === 'string' ? args.text.trim() : ''
        if (text === '' || text.length > longestNote) throw new Error(`A note has 1 to ${longestNote} characters.`)
        if (notes.length >= mostNotes) throw new Error(`The page has room for ${mostNotes} notes.`)
        notes.push(text)
        showNotes()
        return { notes: notes.length }
      },
    },
  ]
}
