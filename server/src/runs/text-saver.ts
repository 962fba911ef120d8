import type { Service } from '../foundation/service.ts'
import { isUnavailable } from '../lib/errors.ts'

/** The text of a step while the model writes it. */
interface GrowingText {
  runId: string
  epoch: number
  step: number
  text: string
  /** The run belongs to another node now. */
  lost(): void
}

/**
 * Saves the text of running steps, each at most every second. Ten times a second, those that are due are saved in one
 * statement per organization, because all of them at once would keep everything else waiting.
 */
export interface TextSaver {
  /** The text has grown since it was last saved. */
  grown(organizationId: string, text: GrowingText): void
  /** The text is about to be saved with the end of its step. */
  forget(organizationId: string, text: GrowingText): void
  close(): void
}

const saveEveryMs = 1_000
const lookEveryMs = 100

export function createTextSaver({ database, log }: Pick<Service, 'database' | 'log'>): TextSaver {
  const waiting = new Map<string, Set<GrowingText>>()
  const savedAt = new WeakMap<GrowingText, number>()
  let isSaving = false

  async function save(organizationId: string, texts: GrowingText[]): Promise<void> {
    const column = <Name extends keyof GrowingText>(name: Name) => texts.map((text) => text[name])
    try {
      const runs = await database.asOrg(
        organizationId,
        (sql) => sql<{ id: string }>`
          with held as (
            select id, step, text
            from unnest(${column('runId')}::uuid[], ${column('epoch')}::int[], ${column('step')}::int[],
                        ${column('text')}::text[]) as given (run_id, given_epoch, step, text)
            join runs on id = run_id and epoch = given_epoch and status = 'running'
          ), saved as (
            update steps set text = held.text from held
            where run_id = id and steps.step = held.step and finish_reason is null
          )
          select id from held`,
      )
      const held = new Set(runs.map(({ id }) => id))
      for (const { runId, lost } of texts) if (!held.has(runId)) lost()
    } catch (error) {
      // The end of the step saves the whole text, or fails.
      log.warn({ err: error, isUnavailable: isUnavailable(error) }, 'Could not save the text of running steps')
    }
  }

  /** Takes those that haven't been saved for a second. */
  function takeDue(organizationId: string, texts: Set<GrowingText>): GrowingText[] {
    const now = performance.now()
    const due = [...texts].filter((text) => now - (savedAt.get(text) ?? Number.NEGATIVE_INFINITY) >= saveEveryMs)
    for (const text of due) {
      savedAt.set(text, now)
      forget(organizationId, text)
    }
    return due
  }

  function forget(organizationId: string, text: GrowingText): void {
    const texts = waiting.get(organizationId)
    texts?.delete(text)
    if (texts?.size === 0) waiting.delete(organizationId)
  }

  const timer = setInterval(async () => {
    if (isSaving) return
    isSaving = true
    const taken = Array.from(waiting, ([id, texts]) => ({ id, due: takeDue(id, texts) }))
    await Promise.all(taken.map(({ id, due }) => due.length > 0 && save(id, due)))
    isSaving = false
  }, lookEveryMs)
  timer.unref()

  return {
    grown(organizationId, text) {
      const texts = waiting.get(organizationId)
      if (texts) texts.add(text)
      else waiting.set(organizationId, new Set([text]))
    },
    forget,
    close: () => clearInterval(timer),
  }
}
