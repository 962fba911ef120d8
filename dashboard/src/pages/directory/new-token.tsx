import { Button, CopyButton } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { t } from './texts.ts'

/** What to enter in the other system. The token is shown once. */
export const NewToken = ({
  text,
  baseUrl,
  token,
  onClose,
}: {
  text: string
  baseUrl: string
  token: string
  onClose: () => void
}) => (
  <div className="grid gap-4">
    <p className="text-muted">{text}</p>
    <ValueToCopy label={t.baseUrl} text={baseUrl} copy={t.copyUrl} />
    <ValueToCopy label={t.token} text={token} copy={t.copyToken} />
    <Notice tone="wait">{t.tokenOnce}</Notice>
    <FormActions>
      <Button variant="primary" onClick={onClose}>
        {t.done}
      </Button>
    </FormActions>
  </div>
)

const ValueToCopy = ({ label, text, copy }: { label: string; text: string; copy: string }) => (
  <Field label={label}>
    <div className="flex gap-2">
      <Input value={text} readOnly className="mono" onFocus={({ target }) => target.select()} />
      <CopyButton text={text} label={copy} />
    </div>
  </Field>
)
