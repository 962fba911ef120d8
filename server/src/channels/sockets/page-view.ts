import { maxTitleLength, maxUrlLength } from '@inlay/protocol'
import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import type { Sight } from '../../tools/hub/messages.ts'
import { ProtocolError } from './messages.ts'

/** What a page shows, and whether its user sees it, as reported by the page. */
export class PageView {
  url = ''
  title = ''
  /** Undefined for widgets that don't report it. */
  isInFront: boolean | undefined
  /** When the page last became visible. */
  shownAt = 0
  #lastInFrontAt: number | undefined

  update(
    { url, title, visible }: { url: string; title: string; visible?: boolean | undefined },
    origin: string | undefined,
    now: number,
  ): void {
    this.url = readUrl(url, origin)
    this.title = cleanLine(title, maxTitleLength)
    if (this.isInFront) this.#lastInFrontAt = now
    if (visible && !this.isInFront) this.shownAt = now
    this.isInFront = visible ?? this.isInFront
  }

  describeSight(now: number): Sight {
    const inFront = this.isInFront
    const lastInFrontAt = inFront ? now : this.#lastInFrontAt
    return { ...(inFront !== undefined && { inFront }), ...(lastInFrontAt !== undefined && { lastInFrontAt }) }
  }
}

/** Checks that the URL has the ticket's origin, and removes its fragment and credentials. */
function readUrl(text: string, origin: string | undefined): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw new ProtocolError('url is not an HTTP or HTTPS URL')
  if (origin !== undefined && url.origin !== origin) throw new ProtocolError('url doesn’t match the ticket’s origin')
  const shown = `${url.origin}${url.pathname}${url.search}`
  return shown.length > maxUrlLength ? `${url.origin}/` : shown
}
