import { Field, Textarea } from '../../ui/controls/form.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { t } from './texts.ts'

/** On which of the organization's pages the agent sees the skill. */
export const Domains = ({ value, onValue }: { value: string; onValue: (value: string) => void }) => (
  <Section title={t.where}>
    <Field label={t.domains} hint={t.domainsHint} isOptional>
      <Textarea
        value={value}
        rows={2}
        spellCheck={false}
        placeholder={t.everywhere}
        className="mono"
        onChange={({ target }) => onValue(target.value)}
      />
    </Field>
  </Section>
)
