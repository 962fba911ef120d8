import { useEffect, useState } from 'react'
import { formatAgo, formatTime, formatUtc } from '../../lib/format.ts'
import { words } from '../words.ts'

/** A time in the reader's time zone, with UTC on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span className="text-faint">{words.never}</span>
  return (
    <time dateTime={at} title={formatUtc(at)}>
      {formatTime(at)}
    </time>
  )
}

/** How long ago, kept up to date while it's shown. */
export function Ago({ at }: { at: string | null | undefined }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 30_000)
    return () => clearInterval(timer)
  }, [])
  if (!at) return <span className="text-faint">{words.never}</span>
  return (
    <time dateTime={at} title={`${formatTime(at)} · ${formatUtc(at)}`}>
      {formatAgo(at, Math.max(now, Date.now()))}
    </time>
  )
}
