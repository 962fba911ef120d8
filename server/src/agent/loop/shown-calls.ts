import { describeInput, describeProgress } from '../feeds/chunks.ts'
import type { ToolCallRow } from '../runs/run.ts'
import type { Work } from './work.ts'

/** Shows calls that the model has just asked for. */
export function showNew({ log, shown }: Work, calls: readonly ToolCallRow[]): void {
  for (const call of calls) {
    const progress = describeProgress(call)
    log.append(describeInput(call), ...progress)
    shown.set(call.id, progress.length)
  }
}

/** Shows what has happened to calls since they were last shown, here or on another node. */
export function showProgress({ log, shown }: Work, calls: readonly ToolCallRow[]): void {
  for (const call of calls) {
    // What is shown of a call only grows.
    const progress = describeProgress(call)
    const known = shown.get(call.id) ?? 0
    if (progress.length > known) log.append(...progress.slice(known))
    shown.set(call.id, progress.length)
  }
}

/** The log begins with everything that has happened to these calls. */
export function noteShown({ shown }: Work, calls: readonly ToolCallRow[]): void {
  for (const call of calls) shown.set(call.id, describeProgress(call).length)
}
