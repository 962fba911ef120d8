// Shared by the benchmarks in Chromium: the CPU time of the tasks in a page's main thread.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { options } from './load.ts'

/** Tasks are events of one name. The others say what a task consists of. */
const traced = ['toplevel', 'devtools.timeline', 'disabled-by-default-v8.gc']
const taskName = 'ThreadControllerImpl::RunTask'

interface TraceEvent {
  name: string
  pid: number
  tid: number
  /** CPU time, in microseconds. */
  tdur?: number
  args: { name?: string }
}

/**
 * Returns the CPU time of each main-thread task during `work`, in milliseconds. With `--profile`, writes the trace. The
 * browser's buffer holds a few hundred turns of the wheel.
 */
export async function traceTasks(
  browser: Browser,
  page: Page,
  name: string,
  work: () => Promise<void>,
): Promise<number[]> {
  await browser.startTracing(page, { categories: traced })
  await work()
  const trace = await browser.stopTracing()
  if (options.profile) writeFileSync(join(options.profile, `${name}.json`), trace)
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] }
  const mainThreads = new Set(
    traceEvents.flatMap(({ name, pid, tid, args }) =>
      name === 'thread_name' && args.name === 'CrRendererMain' ? [`${pid}.${tid}`] : [],
    ),
  )
  return traceEvents.flatMap(({ name, pid, tid, tdur = 0 }) =>
    name === taskName && mainThreads.has(`${pid}.${tid}`) ? [tdur / 1000] : [],
  )
}

/** The number of long tasks, the longest one, and the time per step, as cells of a table. */
export function describeTasks(cpuTimes: readonly number[], steps: number): string {
  const long = cpuTimes.filter((ms) => ms > 50).length
  const longest = cpuTimes.reduce((most, ms) => Math.max(most, ms), 0)
  const total = cpuTimes.reduce((sum, ms) => sum + ms, 0)
  return `${long} | ${longest.toFixed(0)} ms | ${(total / steps).toFixed(1)} ms`
}
