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
  }),
  countGreetings: operation({
    ...shared,
    id: 'countGreetings',
    path: '/greetings',
    response: z.strictObject({ count: z.number() }),
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
