import { CopyButton } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'

/** A value to copy to another system. */
export const Secret = ({ label, text, copy }: { label: string; text: string; copy: string }) => (
  <Field label={label}>
    <div className="flex gap-2">
      <Input value={text} readOnly className="mono" onFocus={({ target }) => target.select()} />
      <CopyButton text={text} label={copy} />
    </div>
  </Field>
)
