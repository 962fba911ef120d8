import { randomUUID } from 'node:crypto'
import type { Operation } from '../src/kernel/foundation/operation.ts'
import type { Sql } from '../src/kernel/stores/database.ts'
import type { Email, TestService } from './harness.ts'

export type Slug = 'demo' | 'other'

/** A successful request for an operation, for tests that call every operation. */
export interface Sample {
  /** Creates the resource in one organization, and returns the path's parameters. */
  prepare?: (app: TestService, slug: Slug) => Promise<Record<string, string>>
  query?: Record<string, string>
  body?: () => unknown
  /** A token for an organization of its own, for an operation that ends its organization. */
  token?: (app: TestService) => Promise<string>
  /** Reverts changes that would break later requests. */
  undo?: (app: TestService, email: Email, slug: Slug) => Promise<void>
}

/** A sample for every operation in a `contract.ts`. */
export type OperationSamples<Contract> = Record<
  { [Name in keyof Contract]: Contract[Name] extends Operation ? Contract[Name]['id'] : never }[keyof Contract],
  Sample
>

/** Arguments of a tool that work for every allowed caller, and invalid arguments with their invalid field. */
export interface ToolSample {
  valid: object[]
  invalid: [args: object, field: string][]
  /** Whether calls fail even with valid arguments. */
  fails?: boolean
}

const admins = { demo: 'admin@demo.test', other: 'admin@other.test' } as const

/** Creates a resource as an administrator. */
export async function post(app: TestService, slug: Slug, path: string, body: unknown): Promise<{ id: string }> {
  const token = await app.tokenFor(admins[slug], slug)
  const answer = await app.request('POST', path, { token, body })
  if (answer.status !== 200) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`)
  return { id: answer.body.id }
}

export const asOrg = async <T>(app: TestService, slug: Slug, work: (sql: Sql) => Promise<T>): Promise<T> =>
  app.service.database.asOrg(await app.organization(slug), work)

export const newEmail = () => `${randomUUID()}@example.com`

export const longText = (length: number) => 'x'.repeat(length)
