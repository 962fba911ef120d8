import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { exactJson, plainText } from '../../frame/plain-text.ts'
import { useTexts } from '../context.ts'

/** Longer text is collapsed. */
const unfolded = { characters: 600, lines: 12 }
const longestText = 200_000

/** The exact input of a call, as JSON. */
export function ExactInput({ args, label }: { args: Record<string, unknown>; label: string }): JSX.Element {
  const texts = useTexts()
  if (Object.keys(args).length === 0) return <pre class="exact">{texts.say('noInput')}</pre>
  return <FoldedText text={exactJson(args)} label={label} />
}

/** What a tool returned: as exact JSON, or as plain text if it isn't JSON. */
export const ExactOutput = ({ text, label }: { text: string; label: string }): JSX.Element => (
  <FoldedText text={readJson(text) ?? plainText(text, longestText)} label={label} />
)

function readJson(text: string): string | undefined {
  try {
    return exactJson(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Collapses long text, and shows all of it once it's expanded. */
function FoldedText({ text, label }: { text: string; label: string }): JSX.Element {
  const texts = useTexts()
  const [isUnfolded, setIsUnfolded] = useState(false)
  const input = useRef<HTMLPreElement>(null)
  const firstLines = text.split('\n', unfolded.lines).join('\n')
  const first = [...firstLines.slice(0, 2 * unfolded.characters)].slice(0, unfolded.characters).join('')
  const unfold = () => {
    setIsUnfolded(true)
    input.current?.focus()
  }
  return (
    <>
      {/* biome-ignore lint/a11y: users scroll it with the keyboard, and it isn't a form */}
      <pre class="exact" tabIndex={0} role="group" aria-label={label} ref={input}>
        {isolateStrings(isUnfolded ? text : first)}
      </pre>
      {!isUnfolded && first !== text && (
        <button type="button" class="small" onClick={unfold}>
          {texts.say('showAll', { count: text.length - first.length })}
        </button>
      )}
    </>
  )
}

/** Right-to-left letters must not reorder the JSON around them. */
const isolateStrings = (json: string) =>
  json
    .split(/("(?:[^"\\]|\\.)*")/)
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts have no other identity
    .map((part, index) => (index % 2 === 1 ? <bdi key={index}>{part}</bdi> : part))
