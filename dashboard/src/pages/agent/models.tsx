import { useMutation } from '@tanstack/react-query'
import { CircleCheck, CircleX, Plus, Zap } from 'lucide-react'
import { formatDuration, formatNumber } from '../../lib/format.ts'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ChoiceCards } from '../../ui/controls/choice.tsx'
import { Field, Input, Select } from '../../ui/controls/form.tsx'
import { Badge, Facts, Notice, Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { RowButtons } from '../../ui/tables/rows.tsx'
import { type Config, type Draft, type DraftModel, newModel, type PartProps, savedKeyFor } from './draft.ts'
import { t } from './texts.ts'

const mostFallbacks = 3

export function Models({ draft, config, problems, change }: PartProps) {
  const { fallbacks } = draft
  const changeFallback = (changed: DraftModel) =>
    change({ fallbacks: fallbacks.map((one) => (one.id === changed.id ? changed : one)) })
  return (
    <Section title={t.model} text={t.modelText}>
      <div className="grid gap-4">
        <ChoiceCards
          label={t.whichModel}
          value={draft.ownsModel ? 'own' : 'installation'}
          onValue={(value) => change({ ownsModel: value === 'own' })}
          options={[
            { value: 'installation', name: t.installation, text: t.installationText },
            { value: 'own', name: t.own, text: t.ownText },
          ]}
        />
        {draft.ownsModel && (
          <>
            <ModelFields
              model={draft.model}
              field="model"
              problems={problems}
              savedKey={savedKeyFor(draft.model, config)}
              onModel={(model) => change({ model })}
            />
            <fieldset>
              <legend className="text-sm font-[550]">{t.fallbacks}</legend>
              <p className="mb-2 text-sm text-muted">{t.fallbacksText}</p>
              <ol className="grid gap-2">
                {fallbacks.map((model, at) => (
                  <li key={model.id} className="rounded-control border border-line bg-bg p-3">
                    <fieldset>
                      <div className="mb-2 flex items-center justify-between">
                        <legend className="float-left text-sm font-[550]">{t.fallback(at + 1)}</legend>
                        <RowButtons
                          name={t.fallback(at + 1)}
                          list={fallbacks}
                          at={at}
                          onList={(next) => change({ fallbacks: next })}
                        />
                      </div>
                      <ModelFields
                        model={model}
                        field={`fallback_models.${at}`}
                        problems={problems}
                        savedKey={savedKeyFor(model, config)}
                        onModel={changeFallback}
                      />
                    </fieldset>
                  </li>
                ))}
              </ol>
              {fallbacks.length < mostFallbacks && (
                <Button
                  icon={Plus}
                  className={fallbacks.length > 0 ? 'mt-2' : ''}
                  onClick={() => change({ fallbacks: [...fallbacks, newModel()] })}
                >
                  {t.addFallback}
                </Button>
              )}
            </fieldset>
          </>
        )}
      </div>
    </Section>
  )
}

/** Where each provider's API is, if the user hasn't entered another address. */
const usualUrls = { openai_compatible: 'https://api.openai.com/v1', anthropic: 'https://api.anthropic.com/v1' }

function ModelFields({
  model,
  field,
  problems,
  savedKey,
  onModel,
}: {
  model: DraftModel
  field: string
  problems: Record<string, string>
  savedKey: string | undefined
  onModel: (model: DraftModel) => void
}) {
  const isUsual = Object.values(usualUrls).includes(model.url)
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <Field label={t.provider} error={problems[`${field}.provider`]}>
        <Select
          value={model.provider}
          options={Object.entries(t.providers) as [DraftModel['provider'], string][]}
          onValue={(provider) => onModel({ ...model, provider, ...(isUsual && { url: usualUrls[provider] }) })}
        />
      </Field>
      <Field label={t.modelName} error={problems[`${field}.name`]}>
        <Input
          value={model.name}
          required
          maxLength={200}
          spellCheck={false}
          autoComplete="off"
          className="mono"
          onChange={({ target }) => onModel({ ...model, name: target.value })}
        />
      </Field>
      <Field label={t.url} error={problems[`${field}.url`]} hint={t.urlHint}>
        <Input
          value={model.url}
          inputMode="url"
          required
          maxLength={2000}
          spellCheck={false}
          className="mono"
          onChange={({ target }) => onModel({ ...model, url: target.value })}
        />
      </Field>
      <Field
        label={t.key}
        error={problems[`${field}.key`]}
        hint={savedKey && !model.key ? t.keyKept(savedKey) : t.keyNew}
      >
        <Input
          type="password"
          value={model.key}
          maxLength={2000}
          autoComplete="off"
          placeholder={savedKey ? `••••••••${savedKey}` : ''}
          className="mono"
          onChange={({ target }) => onModel({ ...model, key: target.value })}
        />
      </Field>
    </div>
  )
}

/** The model that answers now, and a test of the one in the form. */
export function ModelInUse({ draft, config, isChanged }: { draft: Draft; config: Config; isChanged: boolean }) {
  const { source, name, reason } = config.effective_model
  const test = useMutation({
    mutationFn() {
      const { provider, url, name, key } = draft.model
      const model = { provider, url: url.trim(), name: name.trim(), ...(key.trim() && { key: key.trim() }) }
      return unwrap(api.POST('/agent/config/test', { body: isChanged && draft.ownsModel ? { model } : {} }))
    },
  })
  const tone = source === 'none' ? 'bad' : source === 'demo' ? 'wait' : 'good'
  return (
    <Section title={t.inUse} actions={<Badge tone={tone}>{t.sources[source]}</Badge>}>
      {name && <p className="mono wrap-anywhere">{name}</p>}
      <p className="mt-1 text-sm text-muted">{reason}</p>
      <div className="mt-3 grid gap-2">
        <Button icon={Zap} isPending={test.isPending} onClick={() => test.mutate()}>
          {t.test}
        </Button>
        <p className="text-xs text-faint">{t.testHint}</p>
        <FormError error={test.error} />
        {test.data && !test.isPending && <TestResult result={test.data} />}
      </div>
    </Section>
  )
}

type Result = Awaited<ReturnType<typeof runTest>>
const runTest = () => unwrap(api.POST('/agent/config/test', { body: {} }))

function TestResult({ result }: { result: Result }) {
  const { success, model, latency_ms, prompt_tokens, completion_tokens, is_estimated, message } = result
  return (
    <div role="status">
      <Notice tone={success ? 'good' : 'bad'} icon={success ? CircleCheck : CircleX}>
        <p className="font-[550]">{success ? t.works : t.fails}</p>
        {!success && <p className="wrap-anywhere">{message}</p>}
      </Notice>
      <Facts
        facts={[
          [t.model, model ?? '–'],
          ...(latency_ms === null ? [] : [[t.latency, formatDuration(latency_ms)] as const]),
          ...(prompt_tokens === null || completion_tokens === null
            ? []
            : [
                [
                  t.tokens,
                  t.tokensValue(formatNumber(prompt_tokens), formatNumber(completion_tokens)) +
                    (is_estimated ? ` (${t.estimated})` : ''),
                ] as const,
              ]),
        ]}
      />
    </div>
  )
}
