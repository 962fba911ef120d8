import { expect, test } from 'vitest'
import { z } from 'zod'
import { bind, operation, type Route } from './operation.ts'

interface Needs {
  greeting: string
}

const Greeting = z.strictObject({ text: z.string() })

const shared = { method: 'get', access: 'public', tag: 'Greetings', summary: 'Greet', errors: [] } as const

const contract = {
  Greeting,
  greetUser: operation({
    ...shared,
    id: 'greetUser',
    path: '/greetings/{name}',
    params: z.strictObject({ name: z.string() }),
    response: Greeting,
    example: { response: { text: 'Hello Ada' } },
  }),
  countGreetings: operation({
    ...shared,
    id: 'countGreetings',
    path: '/greetings',
    response: z.strictObject({ count: z.number() }),
    example: { response: { count: 1 } },
  }),
}

const greetUser = async ({ greeting }: Needs, _caller: unknown, { name }: { name: string }) => ({
  text: `${greeting} ${name}`,
})
const greetByNumber = async (_needs: Needs, _caller: unknown, { name }: { name: number }) => ({ text: `${name}` })
const countGreetings = async () => ({ count: 1 })

test('binding gives each operation the handler with its name', () => {
  const routes: Route<Needs>[] = bind(contract, { greetUser, countGreetings })
  expect(routes).toEqual([
    { operation: contract.greetUser, handler: greetUser },
    { operation: contract.countGreetings, handler: countGreetings },
  ])
})

test('the compiler refuses a handler that is missing, unknown or of another type', () => {
  const wrong: Route<Needs>[][] = [
    // @ts-expect-error: countGreetings is missing.
    bind(contract, { greetUser }),
    // @ts-expect-error: the contract has no operation with this name.
    bind(contract, { greetUser, countGreetings, countGreeting: countGreetings }),
    // @ts-expect-error: a schema isn't an operation.
    bind(contract, { greetUser, countGreetings, Greeting: countGreetings }),
    // @ts-expect-error: the response of greetUser is a text.
    bind(contract, { greetUser: countGreetings, countGreetings }),
    // @ts-expect-error: the name in the path is a text.
    bind(contract, { greetUser: greetByNumber, countGreetings }),
    // @ts-expect-error: this part of the server has no clock.
    bind(contract, { greetUser: async ({ clock }: { clock: string }) => ({ text: clock }), countGreetings }),
  ]
  expect(wrong).toHaveLength(6)
})

test('the compiler refuses an example that has other types than the schemas', () => {
  const body = z.strictObject({ name: z.string() })
  const definition = { ...shared, id: 'renameUser', path: '/name', response: Greeting } as const
  const example = { request: { name: 'Ada' }, response: { text: 'Hello Ada' } }
  operation({ ...definition, body, example })
  // @ts-expect-error: the text is a text.
  operation({ ...definition, body, example: { ...example, response: { text: 1 } } })
  // @ts-expect-error: the name is missing.
  operation({ ...definition, body, example: { ...example, request: {} } })
  // @ts-expect-error: the operation has no body.
  operation({ ...definition, example })
  // @ts-expect-error: the operation has an example.
  expect(operation({ ...definition })).not.toHaveProperty('example')
})
