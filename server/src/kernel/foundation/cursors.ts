import { z } from 'zod'
import { isId } from '../lib/ids.ts'
import { Timestamp } from './shapes.ts'

/**
 * A cursor is the position of a page's last item: the values that the list is ordered by. Items that are added or
 * removed before it don't move the next page, and finding it costs the same at any depth.
 */
type Position = readonly (string | number)[]

/** A page of a list, and the cursor of the next one: null on the last page. */
export interface Paged<Body> {
  body: Body
  next_cursor: string | null
}

/** What a list can be ordered by. Anyone can write a cursor, so these are only values that PostgreSQL accepts. */
export const order = {
  id: z
    .string()
    .refine(isId)
    .meta({ examples: ['019a8f3e-7c1d-7b52-9d6f-3b1c5e8a2f40'] }),
  time: Timestamp.refine((text) => text >= '1970').meta({ examples: ['2026-11-15T09:30:00.000Z'] }),
  number: z.int().meta({ examples: [1] }),
  text: z
    .string()
    .refine((text) => !text.includes('\0'))
    .meta({ examples: ['refunds'] }),
} as const

/** The `cursor` of a list. `shapes` are those of its position. */
export const cursorAt = <const Shapes extends readonly [z.ZodType, ...z.ZodType[]]>(...shapes: Shapes) =>
  z
    .string()
    .max(1_000)
    .meta({ examples: [writePosition(shapes.flatMap((shape) => shape.meta()?.examples as Position))] })
    .transform((text, context): CursorOf<Shapes> => {
      const position = z.tuple(shapes).safeParse(readPosition(text))
      if (position.success) return position.data as CursorOf<Shapes>
      context.addIssue({ code: 'custom', message: 'Must be the Next-Cursor of a page' })
      return z.NEVER
    })
    .optional()
    .describe('The `Next-Cursor` header of the previous page. `offset` then counts from there.')

type CursorOf<Shapes extends readonly z.ZodType[]> = { readonly [I in keyof Shapes]: z.output<Shapes[I]> }

const writePosition = (position: Position): string => Buffer.from(JSON.stringify(position)).toString('base64url')

function readPosition(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return undefined
  }
}

/**
 * Makes a page of rows that were read with one more than the limit, which shows whether there is another page. A search
 * that stopped before it filled the page says where.
 */
export function takePage<Row>(
  found: readonly Row[],
  limit: number | undefined,
  positionOf: (row: Row) => Position,
  end?: Position,
): { rows: Row[]; next_cursor: string | null } {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  const position = last !== undefined && found.length > rows.length ? positionOf(last) : end
  return { rows, next_cursor: position === undefined ? null : writePosition(position) }
}

/** What to read for a page of that length: one more row, or all rows. */
export const oneMore = (limit: number | undefined): number | null => (limit === undefined ? null : limit + 1)

/** The first page of a list that is ordered by time and ID begins after this position. */
export const beforeAll = ['-infinity', '00000000-0000-0000-0000-000000000000'] as const

/** Reads a page unless the offset is past the end, because skipping reads every row. */
export const readWithin = async <Row>(offset: number, total: number, read: () => Promise<Row[]>): Promise<Row[]> =>
  offset > 0 && offset >= total ? [] : read()
