import { Plus, SendHorizontal } from 'lucide-react'
import { formatNumber } from '../../lib/format.ts'
import mark from '../../mark.svg'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input, Textarea } from '../../ui/controls/form.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { RowButtons } from '../../ui/tables/rows.tsx'
import { type Draft, newEntry, type PartProps } from './draft.ts'
import { t } from './texts.ts'

const mostPrompts = 6
const longestInstructions = 20_000

export function Introduction({ draft, problems, change }: PartProps) {
  const { prompts } = draft
  return (
    <Section title={t.introduction} text={t.introductionText}>
      <div className="grid gap-4">
        <Field label={t.name} error={problems.name}>
          <Input
            value={draft.name}
            required
            maxLength={60}
            className="max-w-72"
            onChange={({ target }) => change({ name: target.value })}
          />
        </Field>
        <Field label={t.greeting} isOptional error={problems.greeting}>
          <Textarea
            value={draft.greeting}
            rows={2}
            maxLength={500}
            onChange={({ target }) => change({ greeting: target.value })}
          />
        </Field>
        <fieldset>
          <legend className="text-sm font-[550]">{t.prompts}</legend>
          <p className="mb-2 text-sm text-muted">{t.promptsText}</p>
          <ol className="grid gap-2">
            {prompts.map((prompt, at) => (
              <li key={prompt.id} className="flex gap-1">
                <Input
                  aria-label={t.prompt(at + 1)}
                  value={prompt.text}
                  maxLength={120}
                  placeholder={t.promptExample}
                  onChange={({ target }) =>
                    change({ prompts: prompts.map((one) => (one === prompt ? { ...one, text: target.value } : one)) })
                  }
                />
                <RowButtons
                  name={t.prompt(at + 1)}
                  list={prompts}
                  at={at}
                  onList={(next) => change({ prompts: next })}
                />
              </li>
            ))}
          </ol>
          {prompts.length < mostPrompts && (
            <Button
              icon={Plus}
              className={prompts.length > 0 ? 'mt-2' : ''}
              onClick={() => change({ prompts: [...prompts, newEntry()] })}
            >
              {t.addPrompt}
            </Button>
          )}
        </fieldset>
      </div>
    </Section>
  )
}

export function Instructions({ draft, problems, change }: PartProps) {
  return (
    <Section title={t.instructions} text={t.instructionsText}>
      <Field
        label={t.instructions}
        isLabelHidden
        error={problems.instructions}
        hint={t.characters(formatNumber(draft.instructions.length), formatNumber(longestInstructions))}
      >
        <Textarea
          value={draft.instructions}
          rows={8}
          maxLength={longestInstructions}
          placeholder={t.instructionsExample}
          onChange={({ target }) => change({ instructions: target.value })}
        />
      </Field>
    </Section>
  )
}

/** How an empty conversation looks in the widget. */
export function Preview({ draft }: { draft: Draft }) {
  const prompts = draft.prompts.map(({ text }) => text.trim()).filter(Boolean)
  return (
    <section className="card overflow-hidden" aria-label={t.preview}>
      <div className="flex items-center gap-2 border-b border-line px-4 py-3">
        <img src={mark} alt="" width="20" height="20" />
        <p className="min-w-0 truncate font-semibold">{draft.name || '…'}</p>
        <span className="badge ml-auto">{t.preview}</span>
      </div>
      <div className="grid min-h-44 content-end gap-3 bg-bg p-4">
        {draft.greeting.trim() && <p className="wrap-anywhere whitespace-pre-line">{draft.greeting}</p>}
        {prompts.length > 0 && (
          <ul className="flex flex-wrap gap-1.5">
            {prompts.map((prompt, at) => (
              <li
                // biome-ignore lint/suspicious/noArrayIndexKey: prompts may be equal while they're typed
                key={at}
                className="rounded-full border border-line-strong bg-surface px-3 py-1 text-sm wrap-anywhere"
              >
                {prompt}
              </li>
            ))}
          </ul>
        )}
        <div
          className="flex items-center justify-between rounded-control border border-line-strong bg-surface py-1.5 pr-1.5 pl-3 text-faint"
          aria-hidden
        >
          {t.previewInput}
          <span className="grid size-6 place-items-center rounded-md bg-accent text-on-accent">
            <SendHorizontal size={14} strokeWidth={1.5} />
          </span>
        </div>
      </div>
    </section>
  )
}
