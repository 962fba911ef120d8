import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { defineLanguageFacet, HighlightStyle, Language, syntaxHighlighting } from '@codemirror/language'
import { unifiedMergeView } from '@codemirror/merge'
import { EditorState, type Extension } from '@codemirror/state'
import { drawSelection, EditorView, keymap } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { type MarkdownConfig, parser } from '@lezer/markdown'
import { useEffect, useRef } from 'react'

/** YAML between two lines of dashes at the start, which Markdown would take for a heading. */
const frontmatter: MarkdownConfig = {
  defineNodes: [{ name: 'Frontmatter', block: true, style: tags.meta }],
  parseBlock: [
    {
      name: 'Frontmatter',
      before: 'HorizontalRule',
      parse(context, line) {
        if (context.lineStart !== 0 || line.text.trimEnd() !== '---') return false
        while (context.nextLine() && line.text.trimEnd() !== '---');
        const end = context.lineStart + line.text.length
        context.nextLine()
        context.addElement(context.elt('Frontmatter', 0, end))
        return true
      },
    },
  ],
}

const markdown = new Language(defineLanguageFacet(), parser.configure(frontmatter), [], 'markdown')

const highlighting = HighlightStyle.define([
  { tag: tags.heading, fontWeight: '600', color: 'var(--text)' },
  { tag: tags.meta, color: 'var(--brass)' },
  { tag: [tags.link, tags.url], color: 'var(--accent)' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.strong, fontWeight: '600' },
  { tag: tags.monospace, color: 'var(--accent)' },
  { tag: [tags.processingInstruction, tags.contentSeparator], color: 'var(--faint)' },
  { tag: tags.quote, color: 'var(--muted)' },
])

const look = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '13px', height: '100%' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '20px', overflow: 'auto' },
  '.cm-content': { padding: '12px 0', caretColor: 'var(--text)' },
  '.cm-line': { padding: '0 14px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  },
  '.cm-insertedLine, .cm-changedLine': { backgroundColor: 'var(--accent-soft)' },
  '.cm-deletedChunk': { backgroundColor: 'var(--danger-soft)', paddingLeft: '14px' },
  '.cm-changedText': { background: 'color-mix(in srgb, var(--accent) 25%, transparent)' },
  '.cm-deletedChunk .cm-deletedText': { background: 'color-mix(in srgb, var(--danger) 25%, transparent)' },
  '.cm-collapsedLines': { background: 'var(--sunken)', color: 'var(--muted)', padding: '4px 14px' },
})

const common = (label: string): Extension => [
  EditorView.lineWrapping,
  EditorView.contentAttributes.of({ 'aria-label': label, 'aria-multiline': 'true', spellcheck: 'true' }),
  markdown,
  syntaxHighlighting(highlighting),
  look,
]

/**
 * Replaces a selection by what was typed. The browser would keep the selection's look with a style attribute, which the
 * content security policy forbids.
 */
const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view
    const isTyping = event.inputType === 'insertText' && event.data !== null && !view.composing
    if (!isTyping || state.readOnly || state.selection.main.empty) return false
    event.preventDefault()
    view.dispatch(state.replaceSelection(event.data as string), { userEvent: 'input.type', scrollIntoView: true })
    return true
  },
})

/** A shadow root, because the content security policy allows the editor's style sheets only inside of one. */
function openRoot(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  root.replaceChildren()
  return root
}

/** A text editor for Markdown. It only takes `text` when it differs from what was typed. */
export function MarkdownEditor({
  label,
  text,
  onText,
  isReadOnly,
  onSave,
}: {
  label: string
  text: string
  onText: (text: string) => void
  isReadOnly: boolean
  onSave: () => void
}) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const latest = useRef({ onText, onSave })
  useEffect(() => {
    latest.current = { onText, onSave }
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of the text is applied below
  useEffect(() => {
    const root = openRoot(host.current as HTMLElement)
    const saveKey = {
      key: 'Mod-s',
      preventDefault: true,
      run() {
        latest.current.onSave()
        return true
      },
    }
    const state = EditorState.create({
      doc: text,
      extensions: [
        common(label),
        drawSelection(),
        typeOverSelection,
        history(),
        keymap.of([saveKey, ...defaultKeymap, ...historyKeymap]),
        EditorState.readOnly.of(isReadOnly),
        EditorView.editable.of(!isReadOnly),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) latest.current.onText(update.state.doc.toString())
        }),
      ],
    })
    view.current = new EditorView({ state, parent: root, root })
    return () => view.current?.destroy()
  }, [label, isReadOnly])
  useEffect(() => {
    const doc = view.current?.state.doc
    if (!doc || doc.toString() === text) return
    view.current?.dispatch({ changes: { from: 0, to: doc.length, insert: text } })
  }, [text])
  return <div ref={host} className="h-full min-h-0" />
}

const readOnly: Extension = [EditorState.readOnly.of(true), EditorView.editable.of(false)]

/** A text with its differences from an earlier one. */
export function TextComparison({ before, after, label }: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const root = openRoot(host.current as HTMLElement)
    const view = new EditorView({
      doc: after,
      extensions: [
        common(label),
        readOnly,
        unifiedMergeView({
          original: before,
          mergeControls: false,
          gutter: false,
          collapseUnchanged: { margin: 3, minSize: 6 },
        }),
      ],
      parent: root,
      root,
    })
    return () => view.destroy()
  }, [before, after, label])
  return <div ref={host} className="overflow-hidden rounded-control border border-line" />
}
