import { randomUUIDv7 } from 'node:crypto'

/** Ids sort by the millisecond of their creation, so that primary keys stay clustered. */
export const newId = (): string => randomUUIDv7()

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** An id that does not look like one is answered like an unknown one, before it reaches a uuid column. */
export const isId = (text: string): boolean => uuid.test(text)
