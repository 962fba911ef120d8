import { CopyButton } from '../controls/button.tsx'

/** Code or a command to copy. Long lines scroll inside of it, unless they're wrapped. */
export function CodeBlock({ label, code, isWrapped }: { label: string; code: string; isWrapped?: boolean }) {
  return (
    <div className="overflow-hidden rounded-control border border-line bg-sunken">
      <div className="flex items-center justify-between gap-2 border-b border-line py-1 pr-1 pl-3">
        <p className="truncate text-sm text-muted">{label}</p>
        <CopyButton text={code} variant="ghost" />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section tabIndex={0} aria-label={label} className="max-h-96 overflow-auto p-3">
        <pre className={`mono leading-5 ${isWrapped ? 'wrap-anywhere whitespace-pre-wrap' : ''}`}>{code}</pre>
      </section>
    </div>
  )
}

/** A key as a whole, to copy. */
export function FullKey({ text, copy, note }: { text: string; copy: string; note?: string }) {
  return (
    <div className="grid gap-1.5">
      <div className="flex flex-wrap items-center gap-2 rounded-control border border-brass/40 bg-brass-soft p-2 pl-3">
        <code className="mono min-w-0 flex-1 basis-60 wrap-anywhere">{text}</code>
        <CopyButton text={text} label={copy} />
      </div>
      {note && <p className="text-sm text-muted">{note}</p>}
    </div>
  )
}

/** Data as text, with line breaks if it's JSON. A text that was cut off can't be parsed. */
export const DataBlock = ({ label, text }: { label: string; text: string }) => (
  <CodeBlock label={label} code={tidy(text)} isWrapped />
)

function tidy(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
