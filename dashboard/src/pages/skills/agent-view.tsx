import { formatNumber } from '../../lib/format.ts'
import { Section } from '../../ui/display/layout.tsx'
import { readSkill, tokensOf } from './skill-text.ts'
import { t } from './texts.ts'

/** What a skill costs, and when the agent reads it. */
export function AgentView({ text }: { text: string }) {
  const { name, description, body } = readSkill(text)
  const entry = `- ${name ?? t.unreadable}: ${description ?? t.unreadable}`
  return (
    <Section title={t.agentSees}>
      <Excerpt title={t.always} text={t.alwaysText} tokens={tokensOf(entry)} content={entry} />
      <Excerpt
        title={t.activated}
        text={t.activatedText}
        tokens={tokensOf(body)}
        content={body.trim() || t.emptyBody}
      />
    </Section>
  )
}

function Excerpt({ title, text, tokens, content }: { title: string; text: string; tokens: number; content: string }) {
  return (
    <div className="not-first:mt-4">
      <div className="flex flex-wrap justify-between gap-x-2">
        <h3 className="text-sm font-[550]">{title}</h3>
        <span className="text-sm text-muted">{t.tokens(formatNumber(tokens))}</span>
      </div>
      <p className="text-sm text-muted">{text}</p>
      <section
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long texts scroll, also with the keyboard
        tabIndex={0}
        aria-label={title}
        className="mono mt-1.5 max-h-56 overflow-y-auto rounded-control bg-sunken px-3 py-2 leading-5 wrap-anywhere whitespace-pre-wrap"
      >
        {content}
      </section>
    </div>
  )
}
