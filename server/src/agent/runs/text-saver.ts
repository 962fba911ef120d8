import type { Service } from '../../kernel/foundation/service.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'

/** The text of a step while the model writes it. */
export interface GrowingText {
  runId: string
  epoch: number
  step: number
  text: string
  /** How much of it is saved. */
  savedLength: number
  /** Whether there may be rows of it. */
  mayBeSaved: boolean
  /** The run belongs to another node now. */
  lost(): void
}

/**
 * Saves the text of running steps, each at most every three seconds, and only what was added. Ten times a second, those
 * that are due are saved in one statement per organization, because all of them at once would keep everything else
 * waiting.
 */
export interface TextSaver {
  /** The text has grown since it was last saved. */
  grown(organizationId: string, text: GrowingText): void
  /** The text is complete. Resolves once nothing of it is being saved. */
  forget(organizationId: string, text: GrowingText): Promise<void>
  close(): void
}

const saveEveryMs = 3_000
const lookEveryMs = 100

/** Both halves of a character are saved together. */
const endOf = (text: string): number => (/[\uD800-\uDBFF]$/.test(text.slice(-1)) ? text.length - 1 : text.length)

export function createTextSaver({ database, log }: Pick<Service, 'database' | 'log'>): TextSaver {
  const waiting = new Map<string, Set<GrowingText>>()
  /** When a text was last saved, or first seen. */
  const savedAt = new WeakMap<GrowingText, number>()
  const saves = new WeakMap<GrowingText, Promise<void>>()
  let isSaving = false

  async function save(organizationId: string, texts: GrowingText[]): Promise<void> {
    const column = <Name extends keyof GrowingText>(name: Name) => texts.map((text) => text[name])
    const parts = texts.map(({ text, savedLength }) => text.slice(savedLength, endOf(text)))
    try {
      const runs = await database.asOrg(
        organizationId,
        (sql) => sql<{ id: string }>`
          with held as (
            select runs.organization_id, id, given.step, n, given.text
            from unnest(${column('runId')}::uuid[], ${column('epoch')}::int[], ${column('step')}::int[],
                        ${column('savedLength')}::int[], ${parts}::text[]) as given (run_id, given_epoch, step, n, text)
            join runs on id = given.run_id and epoch = given_epoch and status = 'running'
          ), saved as (
            insert into step_texts (organization_id, run_id, step, n, text)
            select held.organization_id, id, held.step, n, held.text from held
            join steps on run_id = id and steps.step = held.step and finish_reason is null
            on conflict (organization_id, run_id, step, n) do update set text = excluded.text
          )
          select id from held`,
      )
      const held = new Set(runs.map(({ id }) => id))
      for (const [index, text] of texts.entries()) {
        if (held.has(text.runId)) text.savedLength += parts[index]?.length ?? 0
        else text.lost()
      }
    } catch (error) {
      // The end of the step saves the whole text, or fails.
      log.warn({ err: error, isUnavailable: isUnavailable(error) }, 'Could not save the text of running steps')
    }
  }

  function begin(organizationId: string, texts: GrowingText[]): Promise<void> {
    const saving = save(organizationId, texts)
    for (const text of texts) {
      text.mayBeSaved = true
      saves.set(text, saving)
    }
    return saving
  }

  /** Takes those that haven't been saved for three seconds. Most texts are complete before that. */
  function takeDue(organizationId: string, texts: Set<GrowingText>): GrowingText[] {
    const now = performance.now()
    for (const text of texts) if (!savedAt.has(text)) savedAt.set(text, now)
    const due = [...texts].filter((text) => now - (savedAt.get(text) ?? now) >= saveEveryMs)
    for (const text of due) {
      savedAt.set(text, now)
      drop(organizationId, text)
    }
    return due
  }

  function drop(organizationId: string, text: GrowingText): void {
    const texts = waiting.get(organizationId)
    texts?.delete(text)
    if (texts?.size === 0) waiting.delete(organizationId)
  }

  const timer = setInterval(async () => {
    if (isSaving) return
    isSaving = true
    const taken = Array.from(waiting, ([id, texts]) => ({ id, due: takeDue(id, texts) }))
    await Promise.all(taken.map(({ id, due }) => due.length > 0 && begin(id, due)))
    isSaving = false
  }, lookEveryMs)
  timer.unref()

  return {
    grown(organizationId, text) {
      const texts = waiting.get(organizationId)
      if (texts) texts.add(text)
      else waiting.set(organizationId, new Set([text]))
    },
    async forget(organizationId, text) {
      drop(organizationId, text)
      await saves.get(text)
    },
    close: () => clearInterval(timer),
  }
}
