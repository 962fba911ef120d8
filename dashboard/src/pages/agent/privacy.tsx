import { Segments } from '../../ui/controls/choice.tsx'
import { Field, Input, Switch } from '../../ui/controls/form.tsx'
import { Section } from '../../ui/display/layout.tsx'
import type { PartProps } from './draft.ts'
import { t } from './texts.ts'

/** Who can talk to the agent, who can read what was said, and for how long. */
export function Privacy({ draft, problems, change }: PartProps) {
  return (
    <Section title={t.privacy}>
      <div className="grid gap-5">
        <div className="grid gap-3">
          <Switch
            label={t.anonymous}
            hint={t.anonymousHint}
            checked={draft.isAnonymous}
            onChecked={(isAnonymous) => change({ isAnonymous })}
          />
          {draft.isAnonymous && (
            <div className="pl-10">
              <Field label={t.runs} error={problems['anonymous.runs_per_minute']}>
                <Input
                  inputMode="numeric"
                  value={draft.runsPerMinute}
                  maxLength={3}
                  className="max-w-24"
                  onChange={({ target }) => change({ runsPerMinute: target.value })}
                />
              </Field>
            </div>
          )}
        </div>
        <Switch
          label={t.contents}
          hint={t.contentsHint}
          checked={draft.areContentsVisible}
          onChecked={(areContentsVisible) => change({ areContentsVisible })}
        />
        <div>
          <p className="mb-2 font-[550]">{t.keep}</p>
          <Segments
            label={t.keep}
            value={draft.isErased ? 'days' : 'forever'}
            options={[
              ['forever', t.keepForever],
              ['days', t.keepDays],
            ]}
            onValue={(value) => change({ isErased: value === 'days' })}
          />
          {draft.isErased && (
            <div className="mt-3">
              <Field label={t.days} hint={t.daysHint} error={problems.retention_days}>
                <Input
                  inputMode="numeric"
                  value={draft.retentionDays}
                  maxLength={4}
                  className="max-w-24"
                  onChange={({ target }) => change({ retentionDays: target.value })}
                />
              </Field>
            </div>
          )}
        </div>
      </div>
    </Section>
  )
}
