import { language } from './language.ts'

const locale = language === 'en' ? (navigator.languages.find((name) => name.startsWith('en')) ?? 'en') : language

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 })
const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 })
const percent = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 0, signDisplay: 'exceptZero' })
const dollars = new Intl.NumberFormat(locale, { style: 'currency', currency: 'USD' })
const smallDollars = new Intl.NumberFormat(locale, {
  style: 'currency',
  currency: 'USD',
  maximumSignificantDigits: 2,
})
const dateAndTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const dayOnly = new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric', timeZone: 'UTC' })
const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' })

export const formatNumber = (value: number): string => whole.format(value)
/** 9.4M for 9 400 000. Small numbers are exact. */
export const formatCompact = (value: number): string => (value < 10_000 ? whole : compact).format(value)
/** The change from one value to another, with its sign. */
export const formatChange = (from: number, to: number): string => percent.format((to - from) / from)

/** Money is counted in millionths of a US dollar. */
export function formatMoney(microUsd: number): string {
  const value = microUsd / 1_000_000
  return value > 0 && value < 0.01 ? smallDollars.format(value) : dollars.format(value)
}

export const formatTime = (iso: string): string => dateAndTime.format(new Date(iso))
/** For the hover text: the exact time in UTC. */
export const formatUtc = (iso: string): string => `${iso.slice(0, 19).replace('T', ' ')} UTC`
/** A day as reports name it, for example `2026-11-16`. */
export const formatDay = (date: string): string => dayOnly.format(new Date(`${date}T00:00:00Z`))

export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000
    ? `${(ms / 1_000).toLocaleString(locale, { maximumFractionDigits: 1 })} s`
    : `${Math.round(ms / 60_000)} min`
}

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
  ['year', Number.POSITIVE_INFINITY],
]

/** For example `3 min. ago`. */
export function formatAgo(iso: string, now = Date.now()): string {
  let value = (new Date(iso).getTime() - now) / 1_000
  for (const [unit, size] of units) {
    if (Math.abs(value) < size) return relative.format(Math.round(value), unit)
    value /= size
  }
  return formatTime(iso)
}
