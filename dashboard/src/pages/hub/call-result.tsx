import { formatDuration } from '../../lib/format.ts'
import type { McpResult } from '../../session/mcp.ts'
import { CopyButton } from '../../ui/controls/button.tsx'
import { Badge } from '../../ui/display/layout.tsx'
import { t } from './texts.ts'

type Block = McpResult['content'][number]

/** An error of the hub itself is the same envelope as in REST. */
function readEnvelope(content: readonly Block[]): { code: string; message: string } | undefined {
  const [first] = content
  if (first?.type !== 'text' || !String(first.text).startsWith('{"defined":')) return undefined
  try {
    const { code, message, data } = JSON.parse(String(first.text))
    return { code: String(data?.code ?? code), message: String(message) }
  } catch {
    return undefined
  }
}

/** What a tool returned. A page wrote it, so it's only shown as text. */
export function CallResult({ result, ms }: { result: McpResult; ms: number }) {
  const { content, structuredContent, isError } = result
  const envelope = isError ? readEnvelope(content) : undefined
  const blocks = envelope ? content.slice(1) : content
  // A structured result is usually repeated as text.
  const structured = structuredContent === undefined ? undefined : JSON.stringify(structuredContent, null, 2)
  const shown = structured && !isError ? blocks.filter(({ type }) => type !== 'text') : blocks
  return (
    <section aria-label={t.result} className="grid gap-2 border-t border-line pt-4">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="mr-auto font-semibold">{t.result}</h3>
        {isError ? <Badge tone="bad">{t.failed}</Badge> : <Badge tone="good">{t.done(formatDuration(ms))}</Badge>}
      </div>
      {envelope && (
        <div className="rounded-control bg-danger-soft px-3 py-2">
          <p className="wrap-anywhere">{envelope.message}</p>
          <p className="mono text-danger">{envelope.code}</p>
        </div>
      )}
      {structured && !isError && <Text label={t.structured} text={structured} />}
      {shown.map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a result doesn't change
        <ResultBlock key={index} label={t.part(index + 1)} block={block} />
      ))}
      {!envelope && !structured && blocks.length === 0 && <p className="text-muted">{t.empty}</p>}
      {!envelope && <p className="text-sm text-muted">{t.untrusted}</p>}
    </section>
  )
}

function ResultBlock({ label, block }: { label: string; block: Block }) {
  if (block.type === 'text') return <Text label={label} text={String(block.text)} />
  if (block.type === 'image') {
    const type = String(block.mimeType)
    return /^image\/(png|jpeg|gif|webp)$/.test(type) ? (
      <img src={`data:${type};base64,${block.data}`} alt={t.image(type)} className="max-w-full rounded-control" />
    ) : (
      <p className="text-muted">{t.image(type)}</p>
    )
  }
  const uri = String(block.uri ?? '')
  if (block.type === 'resource_link' && /^https?:\/\//.test(uri)) {
    // The page chose the name. Only the address says where the link leads.
    return (
      <p>
        {String(block.title ?? block.name ?? '')}{' '}
        <a href={uri} target="_blank" rel="noopener noreferrer" className="link wrap-anywhere">
          {uri}
        </a>
      </p>
    )
  }
  return <Text label={label} text={JSON.stringify(block, null, 2)} />
}

function Text({ label, text }: { label: string; text: string }) {
  return (
    <div className="rounded-control border border-line bg-sunken">
      <div className="flex justify-end p-1">
        <CopyButton text={text} variant="ghost" />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section tabIndex={0} aria-label={label} className="max-h-96 overflow-y-auto px-3 pb-3">
        <pre className="mono whitespace-pre-wrap wrap-anywhere">{text}</pre>
      </section>
    </div>
  )
}
