/** What a client writes to the agent, and the model reads. */
export const writeTask = ({ tokens, everyMs }: Task): string => `Write ${tokens} tokens, one every ${everyMs} ms.`

export interface Task {
  tokens: number
  /** 0: as fast as the client reads. */
  everyMs: number
}

export function readTask(message: string): Task {
  const [, tokens, everyMs] = /Write (\d+) tokens, one every (\d+) ms/.exec(message) ?? []
  return { tokens: Number(tokens), everyMs: Number(everyMs) }
}

/** Microseconds of a clock that all processes share. */
export const now = (): number => Number(process.hrtime.bigint() / 1000n)

const tick = 100
const ticks = 1_000_000

/** About as long as a model's token, and as fast to count: the time of sending, in a window of 100 seconds. */
export const writeToken = (): string => ` @${String(Math.floor(now() / tick) % ticks).padStart(6, '0')}.`

const token = /@(\d{6})\./g

/** Returns a function that finds tokens in a stream of text, and passes on when each was sent. */
export function createTokenReader(found: (sentAt: number) => void): (text: string) => void {
  let rest = ''
  return (text) => {
    const all = rest + text
    const time = Math.floor(now() / tick)
    token.lastIndex = 0
    let end = 0
    for (let match = token.exec(all); match; match = token.exec(all)) {
      const age = (((time - Number(match[1])) % ticks) + ticks) % ticks
      found((time - age) * tick)
      end = token.lastIndex
    }
    const begun = all.indexOf('@', end)
    rest = begun === -1 ? '' : all.slice(begun)
  }
}
