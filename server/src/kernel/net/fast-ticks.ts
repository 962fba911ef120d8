import { executionAsyncResource } from 'node:async_hooks'

const kept = new Set<object>()

/**
 * Node represents every `process.nextTick` call as an object of the same shape. If V8 collects garbage a few times while
 * no such object exists, it drops the shape, and every later call takes several times as long. An HTTP request makes about
 * eight such calls, so this keeps one object alive forever. What it saves: docs/decisions/0031-which-speedups-stay.md.
 *
 * The object: https://github.com/nodejs/node/blob/v26.10.0/lib/internal/process/task_queues.js, `tickObject`
 */
export const keepTicksFast = (): void => process.nextTick(() => kept.add(executionAsyncResource()))
