import { Search } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { words } from '../words.ts'

const waitMs = 300

/** A filter for a text. It takes effect shortly after the user has stopped typing. */
export function SearchField({
  label = words.search,
  value,
  onValue,
  className = 'w-64',
}: {
  label?: string
  value: string
  onValue: (value: string) => void
  className?: string
}) {
  const [text, setText] = useState(value)
  const [known, setKnown] = useState(value)
  const [sent, setSent] = useState(value)
  // Another value than the one that was typed comes from a link or a reset.
  if (value !== known) {
    setKnown(value)
    if (value !== sent) {
      setSent(value)
      setText(value)
    }
  }
  const latest = useRef(onValue)
  const timer = useRef(0)
  useEffect(() => {
    latest.current = onValue
  })
  useEffect(() => () => clearTimeout(timer.current), [])
  function send(next: string) {
    clearTimeout(timer.current)
    setSent(next.trim())
    latest.current(next.trim())
  }
  function change(next: string) {
    setText(next)
    clearTimeout(timer.current)
    timer.current = window.setTimeout(() => send(next), waitMs)
  }
  return (
    <div className={`relative max-w-full ${className}`}>
      <Search
        size={16}
        strokeWidth={1.5}
        aria-hidden
        className="pointer-events-none absolute top-2 left-2.5 text-faint"
      />
      <input
        type="search"
        className="input pl-8"
        aria-label={label}
        placeholder={label}
        value={text}
        maxLength={200}
        onChange={({ target }) => change(target.value)}
        onKeyDown={({ key }) => key === 'Enter' && send(text)}
      />
    </div>
  )
}
