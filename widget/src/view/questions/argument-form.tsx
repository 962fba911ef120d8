import type { JSX } from 'preact'
import { plainText } from '../../frame/plain-text.ts'
import { useTexts } from '../context.ts'
import { type ArgumentField, type Checked, labelOf } from './argument-fields.ts'

/** The end of a longer text would be hidden in a field of one line. */
const longestLine = 20
const mostLines = 8

interface ArgumentFormProps {
  /** Distinguishes the fields of several questions. */
  id: string
  fields: readonly ArgumentField[]
  /** What the user has typed, by the field's name. */
  changed: ReadonlyMap<string, string>
  checks: ReadonlyMap<string, Checked>
  onChange(name: string, text: string): void
}

/** A call's arguments as fields that the user can change. Names and descriptions are untrusted text. */
export function ArgumentForm({ id, fields, changed, checks, onChange }: ArgumentFormProps): JSX.Element {
  const { say } = useTexts()
  return (
    <div class="arguments">
      {fields.map((field, index) => {
        const check = checks.get(field.name)
        const fieldId = `${id}-${index}`
        const error = check && 'error' in check ? say(check.error, check.values) : ''
        return (
          <div class="argument" key={field.name}>
            <label for={fieldId}>
              <bdi>{plainText(labelOf(field.name), 80)}</bdi>
            </label>
            <Field
              id={fieldId}
              field={field}
              text={changed.get(field.name) ?? field.text}
              isWrong={error !== ''}
              onChange={(text) => onChange(field.name, text)}
            />
            {field.description !== '' && (
              <p class="argument-note" id={`${fieldId}-note`}>
                {plainText(field.description, 160)}
              </p>
            )}
            <p class="argument-error" id={`${fieldId}-error`} role="alert" hidden={error === ''}>
              {error}
            </p>
          </div>
        )
      })}
    </div>
  )
}

interface FieldProps {
  id: string
  field: ArgumentField
  text: string | undefined
  isWrong: boolean
  onChange(text: string): void
}

function Field({ id, field, text, isWrong, onChange }: FieldProps): JSX.Element {
  const { say } = useTexts()
  const shared = {
    id,
    'aria-invalid': isWrong,
    'aria-describedby': isWrong ? `${id}-error` : field.description === '' ? undefined : `${id}-note`,
    onInput: (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value),
  }
  const options = field.kind === 'boolean' ? ['true', 'false'] : field.options
  if (options.length > 0)
    return (
      <select {...shared} value={text ?? ''}>
        {(text === undefined || !field.isRequired) && <option value="">{say('notSet')}</option>}
        {options.map((option) => (
          <option key={option} value={option}>
            {field.kind === 'boolean' ? say(option === 'true' ? 'yes' : 'no') : option.replace(/^"(.*)"$/, '$1')}
          </option>
        ))}
      </select>
    )
  const isLong = (text ?? '').length > longestLine || (text ?? '').includes('\n')
  if (field.kind === 'json' || (field.kind === 'string' && isLong)) {
    const rows = Math.min(mostLines, Math.max(2, (text ?? '').split('\n').length, Math.ceil((text ?? '').length / 45)))
    const isJson = field.kind === 'json'
    return (
      <textarea {...shared} class={isJson ? 'mono' : ''} dir={isJson ? 'ltr' : 'auto'} rows={rows} value={text ?? ''} />
    )
  }
  const isNumber = field.kind !== 'string'
  return (
    <input
      {...shared}
      type="text"
      inputMode={isNumber ? 'decimal' : 'text'}
      class={isNumber ? 'number' : ''}
      dir={isNumber ? 'ltr' : 'auto'}
      value={text ?? ''}
    />
  )
}
