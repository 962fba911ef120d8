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

/** Saves the text of running steps, at most every second, in one statement per organization. */
export interface TextSaver {
  /** The text has grown since it was last saved. */
  grown(organizationId: string, text: GrowingText): void
  /** The text is about to be saved with the end of its step. */
  forget(organizationId: string, text: GrowingText): void
  close(): void
}

const saveEveryMs = 1_000

export function createTextSaver({ database, log }: Pick<Service, 'database' | 'log'>): TextSaver {
  let waiting = new Map<string, Set<GrowingText>>()
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

  const timer = setInterval(async () => {
    if (isSaving || waiting.size === 0) return
    isSaving = true
    const taken = waiting
    waiting = new Map()
    await Promise.all(Array.from(taken, ([organizationId, texts]) => save(organizationId, [...texts])))
    isSaving = false
  }, saveEveryMs)
  timer.unref()

  return {
    grown(organizationId, text) {
      const texts = waiting.get(organizationId)
      if (texts) texts.add(text)
      else waiting.set(organizationId, new Set([text]))
    },
    forget(organizationId, text) {
      const texts = waiting.get(organizationId)
      texts?.delete(text)
      if (texts?.size === 0) waiting.delete(organizationId)
    },
    close: () => clearInterval(timer),
  }
}
