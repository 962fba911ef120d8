import { texts } from '../../../lib/texts.ts'

export const t = texts('origins', {
  one: 'Enter one origin at a time, without spaces.',
  scheme: 'An origin starts with https://.',
  plainHttp: 'An origin starts with https://. Only localhost can use http://.',
  rest: 'An origin ends after the host and port, without a path or a trailing slash.',
  wildcard: 'A wildcard replaces the whole first part of the host, as in https://*.example.com.',
  invalid: 'This isn’t a valid origin. Enter one such as https://app.example.com.',
})

export interface OriginCheck {
  /** Undefined if the origin can be added. */
  problem?: string
  /** What the user probably meant. */
  suggestion?: string
  /** The problem may disappear as the user continues to type. */
  isUnfinished?: boolean
}

const isLocal = (host: string) => /^(.+\.)?localhost$|^127\.0\.0\.1$|^\[::1\]$/.test(host)

/** Checks an origin, or a pattern such as `https://*.example.com`, as far as that's possible without the server. */
export function checkOrigin(text: string): OriginCheck {
  if (/\s/.test(text)) return { problem: t.one }
  if (!/^https?:\/\//i.test(text)) {
    const isUnfinished = 'https://'.startsWith(text.toLowerCase()) || 'http://'.startsWith(text.toLowerCase())
    return { problem: t.scheme, isUnfinished, ...suggest(`https://${text.replace(/^[a-z]+:\/*|^\/+/i, '')}`, text) }
  }
  const [, scheme = '', wildcard = '', rest = ''] = /^(https?:\/\/)(\*\.)?(.*)$/i.exec(text) ?? []
  if (rest === '') return { problem: t.invalid, isUnfinished: true }
  if (rest.includes('*')) return { problem: t.wildcard }
  const url = URL.parse(scheme + rest)
  if (!url || url.username || url.password || /^\.|\.\.|\.$/.test(url.hostname)) return { problem: t.invalid }
  if (/[/?#\\]/.test(rest)) return { problem: t.rest, suggestion: `${url.protocol}//${wildcard}${url.host}` }
  if (url.protocol === 'http:' && !isLocal(url.hostname)) {
    return { problem: t.plainHttp, suggestion: `https://${wildcard}${url.host}` }
  }
  return {}
}

/** Suggests an origin for a host that was typed without its scheme. */
function suggest(text: string, typed: string): Pick<OriginCheck, 'suggestion'> {
  const host = URL.parse(text)?.host ?? ''
  if (!/^[^:]+\.[a-z]{2,}(:\d+)?$|^localhost:\d+$/.test(host) || /^https?:?\/?$/i.test(typed)) return {}
  return { suggestion: isLocal(host.replace(/:\d+$/, '')) ? `http://${host}` : `https://${host}` }
}

/** Whether an origin is one of those that were allowed. A wildcard stands for one part of the host. */
export const isAllowed = (origin: string, allowed: readonly string[]): boolean =>
  allowed.includes(origin) || allowed.includes(origin.replace(/\/\/[^.]+\./, '//*.'))
